# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter status_report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _overview
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def status_report(
    results: Any, rank_map: Any, unreachable: Any, generated_at: str = "", job: str = ""
) -> dict[str, Any]:
    """Sum up every job over its nodes."""
    try:
        return _overview.status_report(results, rank_map, unreachable, str(generated_at), str(job))
    except Misuse as exc:
        raise AnsibleFilterError(f"status_report: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"status_report": status_report}
