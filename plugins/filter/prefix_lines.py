# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter prefix_lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _lines
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def prefix_lines(text: Any, prefix: Any) -> list[str]:
    """Lines with their origin in front."""
    try:
        return _lines.prefix_lines(text, prefix)
    except Misuse as exc:
        raise AnsibleFilterError(f"prefix_lines: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"prefix_lines": prefix_lines}
