# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error that this collection's own code raises on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class SwiftError(Exception):
    """One or more problems, each a full sentence, with extra keys for the module's result."""

    def __init__(self, problems: str | Sequence[str], details: Mapping[str, Any] | None = None) -> None:
        self.problems: list[str] = [problems] if isinstance(problems, str) else list(problems)
        self.details: dict[str, Any] = dict(details or {})
        super().__init__("\n".join(self.problems))
