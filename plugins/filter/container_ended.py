# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter container_ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_processes


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"container_ended": _container_processes.ended}
