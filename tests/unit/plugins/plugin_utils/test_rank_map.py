# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of ranks from the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils._rank_map import rank_map
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse
from hypothesis import given
from hypothesis import strategies as st


class Guarded(Mapping[str, Any]):
    """Variables of a host of which only a few may be read, as with templates that cannot be resolved."""

    allowed = frozenset({"ansible_host", "ansible_port", "ansible_connection", "swift_node_rank", "swift_colocated"})

    def __init__(self, **values: Any) -> None:
        self.values_ = values

    def __getitem__(self, key: str) -> Any:
        if key not in self.allowed:
            raise AssertionError(f"{key} was read")
        value = self.values_[key]
        if isinstance(value, Exception):
            raise value
        return value

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all variables were read")

    def __len__(self) -> int:
        return len(self.values_)


def inventory(**hosts: dict[str, Any]) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    return list(hosts), {name: Guarded(**values) for name, values in hosts.items()}


def test_order_of_the_inventory() -> None:
    assert rank_map(
        *inventory(gpu7={"ansible_host": "10.112.36.7"}, gpu8={"ansible_host": " 10.112.36.8 "}, bare={})
    ) == {
        "nnodes": 3,
        "rank0": "gpu7",
        "nodes": [
            {"name": "gpu7", "rank": 0, "address": "10.112.36.7", "colocated": False},
            {"name": "gpu8", "rank": 1, "address": "10.112.36.8", "colocated": False},
            {"name": "bare", "rank": 2, "address": "bare", "colocated": False},
        ],
        "ranks": {"gpu7": 0, "gpu8": 1, "bare": 2},
        "problems": [],
    }


def test_given_ranks() -> None:
    found = rank_map(*inventory(a={"swift_node_rank": 2}, b={"swift_node_rank": "0"}, c={"swift_node_rank": 1}))
    assert found["ranks"] == {"b": 0, "c": 1, "a": 2}
    assert found["rank0"] == "b"
    assert found["problems"] == []


@pytest.mark.parametrize(
    ("hosts", "parts"),
    [
        pytest.param({}, ["no host in the group 'swift_nodes'", "missing or empty", "rank 0 first"], id="no group"),
        pytest.param(
            {"a": {"swift_node_rank": 0}, "b": {"swift_node_rank": 0}},
            ["a and b: all have swift_node_rank 0. Each rank belongs to one node."],
            id="duplicate",
        ),
        pytest.param(
            {"a": {"swift_node_rank": 0}, "b": {"swift_node_rank": 2}, "c": {"swift_node_rank": 3}},
            ["c: swift_node_rank leaves a gap. 3 nodes need exactly the ranks 0 to 2, and nobody has 1."],
            id="gap",
        ),
        pytest.param(
            {"a": {"swift_node_rank": 1}, "b": {"swift_node_rank": 2}},
            ["b: swift_node_rank leaves a gap", "nobody has 0"],
            id="from 1",
        ),
        pytest.param(
            {"a": {"swift_node_rank": 0}, "b": {}, "c": {"swift_node_rank": ""}},
            ["b and c: no swift_node_rank, but a has one. Give it to all nodes, or to none"],
            id="partly",
        ),
        pytest.param(
            {"a": {"swift_node_rank": 0}, "b": {"swift_node_rank": 1}, "c": {}},
            ["c: no swift_node_rank, but a and b have one"],
            id="two",
        ),
        pytest.param(
            {"a": {"swift_node_rank": "first"}, "b": {"swift_node_rank": 0}},
            ["a: swift_node_rank is 'first', not an integer"],
            id="text",
        ),
        pytest.param({"a": {"swift_node_rank": True}}, ["a: swift_node_rank is True, not an integer"], id="boolean"),
        pytest.param({"a": {"swift_node_rank": -1}}, ["a: swift_node_rank leaves a gap"], id="negative"),
        pytest.param(
            {"a": {"ansible_host": "10.0.0.1"}, "b": {"ansible_host": "10.0.0.1"}},
            ["a and b are one machine: both are reached at 10.0.0.1. Remove one", "swift_colocated: true for both"],
            id="one address",
        ),
        pytest.param(
            {"a": {"ansible_host": "B"}, "b": {}},
            ["a and b are one machine: both are reached at b."],
            id="name as address",
        ),
        pytest.param(
            {"a": {"ansible_host": "h", "ansible_port": 2222}, "b": {"ansible_host": "h", "ansible_port": "2222"}},
            ["both are reached at h port 2222"],
            id="one address and port",
        ),
        pytest.param(
            {"a": {"ansible_host": "h", "swift_colocated": True}, "b": {"ansible_host": "h"}},
            ["a and b are one machine"],
            id="only one says so",
        ),
        pytest.param(
            {"a": {"ansible_connection": "local"}, "b": {"ansible_connection": "ansible.builtin.local"}},
            ["both are reached at this machine"],
            id="local",
        ),
        pytest.param(
            {"a": {"ansible_host": ValueError("'vip' is undefined.\nmore")}},
            ["a: the variable ansible_host cannot be read: 'vip' is undefined. Correct it in the inventory."],
            id="broken template",
        ),
        pytest.param(
            {"a": {"swift_node_rank": ValueError()}}, ["swift_node_rank cannot be read: ValueError."], id="no words"
        ),
    ],
)
def test_problems(hosts: dict[str, dict[str, Any]], parts: list[str]) -> None:
    found = rank_map(*inventory(**hosts))
    (problem,) = found["problems"]
    for part in parts:
        assert part in problem
    assert found["nnodes"] == len(hosts)
    assert sorted(found["ranks"].values()) == list(range(len(hosts)))


@pytest.mark.parametrize(
    "hosts",
    [
        {"a": {"ansible_host": "h", "ansible_port": 2201}, "b": {"ansible_host": "h", "ansible_port": 2202}},
        {"a": {"ansible_host": "h", "swift_colocated": True}, "b": {"ansible_host": "h", "swift_colocated": "yes"}},
        {
            "a": {"ansible_connection": "local", "swift_colocated": True},
            "b": {"ansible_connection": "local", "swift_colocated": True},
        },
    ],
)
def test_no_problems(hosts: dict[str, dict[str, Any]]) -> None:
    assert rank_map(*inventory(**hosts))["problems"] == []


def test_all_problems_at_once() -> None:
    hosts = {
        "a": {"ansible_host": "h", "swift_node_rank": 0},
        "b": {"ansible_host": "h", "swift_node_rank": 0},
        "c": {},
    }
    assert len(rank_map(*inventory(**hosts))["problems"]) == 3


def test_a_node_listed_twice() -> None:
    names, variables = inventory(a={}, b={})
    found = rank_map([*names, "a"], variables)
    assert found["problems"] == ["a: listed more than once among the nodes. List each node once."]
    assert found["ranks"] == {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("hosts", "variables"), [("node1", {}), (None, {}), (["a"], None), (["a"], []), ({"a": 1}, {})]
)
def test_misuse(hosts: Any, variables: Any) -> None:
    with pytest.raises(Misuse):
        rank_map(hosts, variables)


NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), min_size=1, max_size=64, unique=True)


@given(NAMES)
def test_ranks_are_the_order_of_the_inventory(names: list[str]) -> None:
    found = rank_map(*inventory(**{name: {} for name in names}))
    assert found["problems"] == []
    assert found["ranks"] == {name: rank for rank, name in enumerate(names)}
    assert [node["name"] for node in found["nodes"]] == names
    assert [node["rank"] for node in found["nodes"]] == list(range(len(names)))


@given(NAMES.flatmap(lambda names: st.tuples(st.just(names), st.permutations(range(len(names))))))
def test_given_ranks_are_followed_exactly(case: tuple[list[str], list[int]]) -> None:
    names, ranks = case
    given_ranks = dict(zip(names, ranks))
    found = rank_map(*inventory(**{name: {"swift_node_rank": rank} for name, rank in given_ranks.items()}))
    assert found["problems"] == []
    assert found["ranks"] == given_ranks
    assert found["rank0"] == names[ranks.index(0)]


@given(NAMES, st.data())
def test_whatever_is_given_ranks_are_unique_and_without_gaps(names: list[str], data: st.DataObject) -> None:
    rank = st.one_of(st.none(), st.integers(-2, 5), st.text(max_size=2), st.booleans())
    hosts = {name: {"swift_node_rank": data.draw(rank)} for name in names}
    found = rank_map(*inventory(**hosts))
    assert sorted(found["ranks"].values()) == list(range(len(names)))
    assert [node["rank"] for node in found["nodes"]] == list(range(len(names)))
    if found["problems"]:
        assert list(found["ranks"]) == names
