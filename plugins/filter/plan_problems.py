# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter plan_problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _plan
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def plan_problems(results: Any, rank_map: Any) -> list[str]:
    """All reasons why a plan cannot be carried out."""
    try:
        return _plan.plan_problems(results, rank_map)
    except Misuse as exc:
        raise AnsibleFilterError(f"plan_problems: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"plan_problems": plan_problems}
