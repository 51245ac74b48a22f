# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter contact_problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.plugin_utils import _contacts
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse


def contact_problems(results: Any, expected: str) -> list[str]:
    """Say which nodes did not answer, why, and what to do."""
    try:
        return _contacts.contact_problems(results, str(expected))
    except Misuse as exc:
        raise AnsibleFilterError(f"contact_problems: {exc}") from exc


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"contact_problems": contact_problems}
