# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _placement
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def placement(rank_map: Any, hostvars: Any, run: Any) -> dict[str, Any]:
    """Addresses, interfaces and GPUs of every rank."""
    try:
        return _placement.placement(rank_map, hostvars, run)
    except Misuse as exc:
        raise AnsibleFilterError(f"placement: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"placement": placement}
