# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter job_outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _overview
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def job_outputs(results: Any, last: int = 0) -> list[dict[str, Any]]:
    """Put the output of all nodes side by side."""
    try:
        return _overview.job_outputs(results, int(last))
    except Misuse as exc:
        raise AnsibleFilterError(f"job_outputs: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"job_outputs": job_outputs}
