# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter rank_map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _rank_map
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def rank_map(hosts: Any, hostvars: Any) -> dict[str, Any]:
    """Which node has which rank, from the inventory alone."""
    try:
        return _rank_map.rank_map(hosts, hostvars)
    except Misuse as exc:
        raise AnsibleFilterError(f"rank_map: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"rank_map": rank_map}
