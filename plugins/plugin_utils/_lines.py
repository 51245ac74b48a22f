# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of several nodes in one place."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")


def prefix_lines(text: Any, prefix: Any) -> list[str]:
    """Each line with the prefix; of a progress bar only what was on the screen at its end; no control codes."""
    if isinstance(text, str):
        lines = text.split("\n")
    elif isinstance(text, (list, tuple)):
        lines = [line for item in text for line in str(item).split("\n")]
    else:
        raise Misuse(f"The lines must be text or a list of text, not {type(text).__name__}.")
    shown = [_visible(line) for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return [f"{prefix}{line}".rstrip() for line in shown]


def _visible(line: str) -> str:
    """What a terminal shows of a line that was overwritten after carriage returns."""
    overwritten = [part for part in line.split("\r") if part.strip()]
    return _CONTROL.sub("", overwritten[-1]) if overwritten else ""
