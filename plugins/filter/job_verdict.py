# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter job_verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _verdict
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def job_verdict(
    results: Any, summary: Any, until: str = "none", started: bool = False, patience: int = 0
) -> dict[str, Any]:
    """Say whether a job that is waited for is well, and what to do if not."""
    try:
        return _verdict.verdict(results, summary, str(until), bool(started), int(patience))
    except Misuse as exc:
        raise AnsibleFilterError(f"job_verdict: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"job_verdict": job_verdict}
