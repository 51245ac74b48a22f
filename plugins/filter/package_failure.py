# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter package_failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils import _package_failure


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"package_failure": _package_failure.explain}
