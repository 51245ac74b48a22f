# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter picked_checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _plan
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def picked_checkpoint(results: Any, rank_map: Any) -> str | None:
    """The checkpoint to go on from."""
    try:
        return _plan.picked_checkpoint(results, rank_map)
    except Misuse as exc:
        raise AnsibleFilterError(f"picked_checkpoint: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"picked_checkpoint": picked_checkpoint}
