# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter swift_run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _run
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def swift_run(job_vars: Any, rank_map: Any) -> dict[str, Any]:
    """The job as asked for, merged and checked."""
    try:
        return _run.swift_run(job_vars, rank_map)
    except Misuse as exc:
        raise AnsibleFilterError(f"swift_run: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"swift_run": swift_run}
