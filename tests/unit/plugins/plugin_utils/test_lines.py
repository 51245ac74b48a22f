# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of lines with their origin in front, and of careful reading."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _reading
from ansible_collections.trainyard.swift.plugins.plugin_utils._lines import prefix_lines
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n\n", []),
        ("a\nb\n", ["> a", "> b"]),
        ("a\n\nb", ["> a", ">", "> b"]),
        (["a", "b\nc"], ["> a", "> b", "> c"]),
        (("a", 1), ["> a", "> 1"]),
        ("\rTrain:   0%\rTrain:  50%\r", ["> Train:  50%"]),
        ("a\r\nb\r\n", ["> a", "> b"]),
        ("\x1b[31mred\x1b[0m\x1b[A \x07bell\ttab", ["> red bell\ttab"]),
    ],
)
def test_prefix_lines(text: Any, lines: list[str]) -> None:
    assert prefix_lines(text, "> ") == lines


@given(st.one_of(st.text(), st.lists(st.text())))
def test_no_line_is_left_without_its_prefix(text: Any) -> None:
    for line in prefix_lines(text, "[n]"):
        assert line.startswith("[n]")
        assert "\r" not in line
        assert "\x1b" not in line


@pytest.mark.parametrize("text", [None, 3, {"a": 1}])
def test_misuse(text: Any) -> None:
    with pytest.raises(Misuse):
        prefix_lines(text, "> ")


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3), ("3", 3), (" 3 ", 3), ("-3", None), (True, None), ("", None), (1.5, None), (None, None)],
)
def test_integer(value: Any, number: int | None) -> None:
    assert _reading.integer(value) == number


@pytest.mark.parametrize("value", [True, "yes", "true", "True", "on", 1, "1"])
def test_truth(value: Any) -> None:
    assert _reading.truth(value)


@pytest.mark.parametrize("value", [False, None, "no", "false", "", 0, [], "maybe"])
def test_no_truth(value: Any) -> None:
    assert not _reading.truth(value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "a boolean"), ({}, "a mapping"), ([], "a list"), ("", "text"), (1, "of the type int")],
)
def test_kind(value: Any, kind: str) -> None:
    assert _reading.kind(value) == kind


@pytest.mark.parametrize(("names", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_enumerate_names(names: list[str], text: str) -> None:
    assert _reading.enumerate_names(names) == text
