# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter job_summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _summary
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def job_summary(results: Any, rank_map: Any) -> dict[str, Any]:
    """The state of a job over all nodes."""
    try:
        return _summary.job_summary(results, rank_map)
    except Misuse as exc:
        raise AnsibleFilterError(f"job_summary: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"job_summary": job_summary}
