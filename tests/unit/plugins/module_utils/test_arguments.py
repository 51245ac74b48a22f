# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of turning arguments into words."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _arguments
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, []),
        ({"model": "/m"}, ["--model", "/m"]),
        ({"packing": True, "padding_free": False}, ["--packing", "true", "--padding_free", "false"]),
        ({"gone": None, "kept": 0}, ["--kept", "0"]),
        ({"dataset": ["/a", "/b"]}, ["--dataset", "/a", "/b"]),
        ({"dataset": ("/a", None, 3)}, ["--dataset", "/a", "3"]),
        ({"dataset": [], "report_to": [None]}, []),
        (
            {"lr": 1e-5, "max_length": 20480, "warmup_ratio": 0.01},
            ["--lr", "1e-05", "--max_length", "20480", "--warmup_ratio", "0.01"],
        ),
        ({"model_kwargs": {"b": 1, "a": [True, {"c": "é"}]}}, ["--model_kwargs", '{"a": [true, {"c": "é"}], "b": 1}']),
        ({"system": ""}, ["--system", ""]),
        ({"system": "-- be kind"}, ["--system=-- be kind"]),
        ({"device_map": "-1"}, ["--device_map", "-1"]),
        ({"eval_iters": -1, "lr": -1e-5}, ["--eval_iters", "-1", "--lr", "-1e-05"]),
    ],
)
def test_render(arguments: dict[str, Any], words: list[str]) -> None:
    assert _arguments.render(arguments) == words


def test_canonical_is_the_same_for_what_means_the_same() -> None:
    assert _arguments.canonical({"a": 1, "b": True, "c": None, "d": []}) == _arguments.canonical(
        {"b": "true", "a": "1"}
    )


def test_two_spellings_of_one_flag() -> None:
    assert _arguments.canonical({"lora-rank": 8, "lora_rank": None}) == _arguments.canonical({"lora_rank": "8"})
    assert _arguments.problems({"lora-rank": 8, "lora_rank": None}) == []
    (problem,) = _arguments.problems({"lora-rank": 8, "lora_rank": 8, "lr": 1})
    assert problem == "The arguments 'lora-rank' and 'lora_rank' are one and the same flag. Keep one of them."


@pytest.mark.parametrize(
    ("arguments", "patterns"),
    [
        ({"dataset": "/data/train_data/pt_*.jsonl"}, ["/data/train_data/pt_*.jsonl"]),
        ({"cached_dataset": "/data/train_data/pt/cached_pt_*/train"}, ["/data/train_data/pt/cached_pt_*/train"]),
        (
            {"dataset": ["/a/*.jsonl", "/a/?.jsonl", "./[ab].jsonl", "../x*"]},
            ["/a/*.jsonl", "/a/?.jsonl", "./[ab].jsonl", "../x*"],
        ),
        ({"dataset": ["/a/*.jsonl", "/a/*.jsonl"], "val_dataset": "/a/*.jsonl"}, ["/a/*.jsonl"]),
        ({"dataset": "/a/*.jsonl#100"}, ["/a/*.jsonl"]),
        ({"dataset": ["/a/b.jsonl", "AI-ModelScope/alpaca*"]}, []),
        ({"freeze_parameters_regex": "/layers.*", "system": "what? [x]*"}, []),
        ({"model_kwargs": {"a": "/x*"}, "n": 3, "none": None}, []),
    ],
)
def test_globs(arguments: dict[str, Any], patterns: list[str]) -> None:
    assert _arguments.globs(arguments) == patterns


def test_expand() -> None:
    arguments = {"model": "/m", "dataset": ["/a/*.jsonl#5", "/b", "/c/*"], "val_dataset": "/a/*.jsonl", "packing": True}
    resolved = {"/a/*.jsonl": ["/a/1.jsonl", "/a/2.jsonl"]}
    assert _arguments.expand(arguments, resolved) == {
        "model": "/m",
        "dataset": ["/a/1.jsonl#5", "/a/2.jsonl#5", "/b", "/c/*"],
        "val_dataset": ["/a/1.jsonl", "/a/2.jsonl"],
        "packing": True,
    }


class Odd:
    """Something that no YAML can be."""


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "must be a mapping of flag names to values, not list"),
        (None, "not null"),
        ("--model /m", "not text"),
        (3, "not int"),
        ({"--model": "/m"}, "'--model' starts with dashes. Write the name alone, 'model'"),
        ({"my flag": 1}, "'my flag' is not a flag name"),
        ({7: 1}, "7 is not a flag name"),
        ({"": 1}, "'' is not a flag name"),
        ({"dataset": [["/a"]]}, "'dataset' has a list inside its list"),
        ({"dataset": [{"a": 1}]}, "'dataset' has a mapping inside its list"),
        ({"dataset": ["/a", "--x"]}, "'--x' in its list, which the trainer would take for a flag"),
        ({"x": Odd()}, "'x' is of the type Odd"),
        ({"x": "a\0b"}, "NUL character"),
        ({"model": "~/m"}, "'~/m', but no shell is there to replace '~'"),
    ],
)
def test_problems(arguments: Any, part: str) -> None:
    (problem,) = _arguments.problems(arguments)
    assert part in problem


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "x", ["a", 1, -1], ["-x"], {"a": {"b": []}}, [], ""])
def test_no_problem(value: Any) -> None:
    assert _arguments.problems({"some-flag_2": value}) == []


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_words_are_always_text_and_flags_keep_their_order(arguments: dict[str, Any]) -> None:
    words = _arguments.render(arguments)
    assert all(isinstance(word, str) for word in words)
    assert set(_arguments.canonical(arguments)) <= {_arguments.flag_name(name) for name in arguments}
    assert isinstance(_arguments.problems(arguments), list)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_expanding_nothing_changes_nothing(arguments: dict[str, Any]) -> None:
    assert _arguments.expand(arguments, {}) == arguments
