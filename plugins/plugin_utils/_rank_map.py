# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks from the inventory alone: the same inventory gives the same ranks, whatever happens at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_list,
    a_mapping,
    enumerate_names,
    integer,
    truth,
    unset,
    variable,
)

_GROUP_MISSING = (
    "The inventory has no host in the group 'swift_nodes': the group is missing or empty. "
    "List the nodes under swift_nodes, the one to be rank 0 first."
)


def rank_map(hosts: Any, hostvars: Any) -> dict[str, Any]:
    """Which node has which rank, who is rank 0, and all that is wrong with that part of the inventory."""
    names = [str(name) for name in a_list(hosts, "The list of hosts")]
    variables = a_mapping(hostvars, "hostvars")
    reader = _Reader(variables)
    facts = [reader.node(name) for name in names]
    order, order_problems = _ranked(names, {fact["name"]: fact["rank"] for fact in facts})
    by_name = {fact["name"]: fact for fact in facts}
    nodes = [
        {"name": name, "rank": rank, "address": by_name[name]["address"], "colocated": by_name[name]["colocated"]}
        for rank, name in enumerate(order)
    ]
    return {
        "nnodes": len(nodes),
        "rank0": order[0] if order else "",
        "nodes": nodes,
        "ranks": {name: rank for rank, name in enumerate(order)},
        "problems": [
            *([] if names else [_GROUP_MISSING]),
            *_repeated(names),
            *reader.problems,
            *order_problems,
            *_shared_addresses(facts),
        ],
    }


class _Reader:
    """Reads the few variables that matter and no other; one that cannot be read is a problem of the inventory."""

    def __init__(self, hostvars: Mapping[str, Any]) -> None:
        self.hostvars = hostvars
        self.problems: list[str] = []

    def node(self, name: str) -> dict[str, Any]:
        address = self._get(name, "ansible_host")
        port = integer(self._get(name, "ansible_port"))
        local = str(self._get(name, "ansible_connection") or "") in ("local", "ansible.builtin.local")
        place = ("this machine", 0) if local else (name if unset(address) else str(address).strip(), port or 22)
        return {
            "name": name,
            "address": name if unset(address) else str(address).strip(),
            "place": (place[0].lower(), place[1]),
            "colocated": truth(self._get(name, "swift_colocated")),
            "rank": self._get(name, "swift_node_rank"),
        }

    def _get(self, name: str, key: str) -> Any:
        value, problem = variable(self.hostvars, name, key)
        if problem:
            self.problems.append(problem)
        return value


def _repeated(names: Sequence[str]) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    return [f"{name}: listed more than once among the nodes. List each node once." for name in twice]


def _ranked(names: Sequence[str], given: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Nodes by rank. Where swift_node_rank cannot be followed, the inventory's order and the reasons."""
    in_order = list(dict.fromkeys(names))
    with_rank = [name for name in in_order if not unset(given[name])]
    if not with_rank:
        return in_order, []
    ranks = {name: integer(given[name]) for name in with_rank}
    problems = [
        f"{name}: swift_node_rank is {given[name]!r}, not an integer from 0 up. Give a number, or leave it out."
        for name in with_rank
        if ranks[name] is None
    ]
    problems.extend(_partly_given(in_order, with_rank))
    problems.extend(_repeated_ranks(ranks))
    if not problems:
        problems.extend(_gaps(ranks))
    if problems:
        return in_order, problems
    return sorted(in_order, key=lambda name: ranks[name] or 0), []


def _partly_given(names: Sequence[str], with_rank: Sequence[str]) -> list[str]:
    without = [name for name in names if name not in with_rank]
    if not without:
        return []
    return [
        f"{enumerate_names(without)}: no swift_node_rank, but {enumerate_names(list(with_rank))} "
        f"{'has' if len(with_rank) == 1 else 'have'} one. "
        "Give it to all nodes, or to none: then the order in the inventory counts."
    ]


def _repeated_ranks(ranks: Mapping[str, int | None]) -> list[str]:
    owners: dict[int, list[str]] = {}
    for name, rank in ranks.items():
        if rank is not None:
            owners.setdefault(rank, []).append(name)
    return [
        f"{enumerate_names(names)}: all have swift_node_rank {rank}. Each rank belongs to one node."
        for rank, names in sorted(owners.items())
        if len(names) > 1
    ]


def _gaps(ranks: Mapping[str, int | None]) -> list[str]:
    """Ranks here are known to be distinct integers of all nodes."""
    present = sorted(rank for rank in ranks.values() if rank is not None)
    wanted = list(range(len(present)))
    if present == wanted:
        return []
    missing = ", ".join(str(rank) for rank in wanted if rank not in present)
    beyond = [name for name, rank in ranks.items() if rank not in wanted]
    return [
        f"{enumerate_names(beyond)}: swift_node_rank leaves a gap. {len(wanted)} nodes need exactly the ranks "
        f"0 to {len(wanted) - 1}, and nobody has {missing}."
    ]


def _shared_addresses(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{one['name']} and {two['name']} are one machine: both are reached at {_shown(one['place'])}. Remove one, "
        "or correct ansible_host; if two nodes on one machine are meant, set swift_colocated: true for both."
        for one, two in combinations(facts, 2)
        if one["place"] == two["place"] and one["name"] != two["name"] and not (one["colocated"] and two["colocated"])
    ]


def _shown(place: tuple[str, int]) -> str:
    address, port = place
    return address if port in (0, 22) else f"{address} port {port}"
