# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter contact_problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleTypeError

from ansible_collections.trainyard.swift.plugins.plugin_utils import _contacts


def contact_problems(results: Any, expected: str) -> list[str]:
    """Say which nodes did not answer, why, and what to do."""
    if not isinstance(results, Mapping):
        raise AnsibleTypeError(f"contact_problems needs a mapping of node names to results, not {type(results).__name__}.")
    return _contacts.contact_problems(
        {str(name): result if isinstance(result, Mapping) else {} for name, result in results.items()}, expected
    )


class FilterModule:
    """The filter, as Ansible looks for it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters of this file."""
        return {"contact_problems": contact_problems}
