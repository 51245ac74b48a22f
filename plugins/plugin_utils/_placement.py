# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each rank lives: addresses, interfaces and GPUs, from the inventory and the facts of the nodes."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils import _network
from ansible_collections.trainyard.swift.plugins.plugin_utils._network import Address
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_mapping,
    a_rank_map,
    enumerate_names,
    integer,
    mapping_or_empty,
    unset,
    variable,
)
from ansible_collections.trainyard.swift.plugins.plugin_utils._run import is_loopback

_LOOPBACK = "127.0.0.1"


def placement(rank_map: Any, hostvars: Any, run: Any) -> dict[str, Any]:
    """Cluster address, interface and GPUs of every node, and the master's address."""
    planner = _Planner(a_rank_map(rank_map), a_mapping(hostvars, "hostvars"), a_mapping(run, "The run"))
    return planner.result()


@dataclass
class _Node:
    """What is known of one node; C(chosen) is filled in by the planner."""

    name: str
    rank: int
    colocated: bool
    given: str | None
    gpus: list[int] | None
    default: str
    hardware: str
    all: list[Address]
    candidates: list[Address] = field(default_factory=list)
    chosen: tuple[str, str] | None = None  # address, interface
    real: list[Address] = field(init=False)
    real_ips: frozenset[ipaddress.IPv4Address] = field(init=False)

    def __post_init__(self) -> None:
        self.real = [address for address in self.all if address.is_real]
        self.real_ips = frozenset(address.ip for address in self.real)


class _Planner:
    """Collects problems and warnings while it places the nodes."""

    def __init__(self, rank_map: Mapping[str, Any], hostvars: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        self.run = run
        self.problems: list[str] = []
        self.warnings: list[str] = []
        entries = rank_map["nodes"]
        self.one_machine = bool(entries) and all(bool(entry["colocated"]) for entry in entries)
        # One machine talks to itself over the loopback, whatever its facts say.
        self.needs_network = len(entries) > 1 and not self.one_machine
        self.nodes = [self._node(node, hostvars) for node in entries]

    def result(self) -> dict[str, Any]:
        seen = [node for node in self.nodes if node.all]
        self._one_machine_twice(seen)
        owners: dict[ipaddress.IPv4Address, list[_Node]] = {}
        for node in seen:
            for ip in {address.ip for address in node.all}:
                owners.setdefault(ip, []).append(node)
        for node in seen:
            self._find_candidates(node, owners)
        if not self.problems:
            self._choose()
        if not self.problems:
            self._same_address_twice()
        self._check_gpus()
        return {
            "master_addr": self._master(),
            "nodes": {node.name: self._placed(node) for node in self.nodes},
            "problems": self.problems,
            "warnings": self.warnings,
        }

    def _node(self, entry: Mapping[str, Any], hostvars: Mapping[str, Any]) -> _Node:
        name = str(entry["name"])
        facts = mapping_or_empty(mapping_or_empty(hostvars[name]).get("ansible_facts"))
        given = self._variable(hostvars, name, "swift_cluster_ip")
        node = _Node(
            name=name,
            rank=int(entry["rank"]),
            colocated=bool(entry["colocated"]),
            given=None if unset(given) else str(given).strip(),
            gpus=self._gpus(name, self._variable(hostvars, name, "swift_gpus")),
            default=_network.default_address(facts),
            hardware=_network.hardware(facts),
            all=_network.addresses(facts),
        )
        if not node.all and (self.needs_network or node.given is not None):
            self.problems.append(
                f"{name}: its network facts name no interface, so it has no place in the cluster. Ansible reads them with "
                "the program 'ip': install iproute2 (on RHEL iproute) there. In a play of your own, gather the facts of "
                "all nodes first (setup with the subset 'network')."
            )
        return node

    def _variable(self, hostvars: Mapping[str, Any], host: str, name: str) -> Any:
        value, problem = variable(hostvars, host, name)
        if problem:
            self.problems.append(problem)
        return value

    def _gpus(self, name: str, given: Any) -> list[int] | None:
        if unset(given):
            return None
        count = integer(given)
        items = range(count) if count is not None and count >= 0 else given
        indices = [integer(item) for item in items] if isinstance(items, (list, tuple, range)) else [None]
        plain = [index for index in indices if index is not None and index >= 0]
        if len(plain) != len(indices) or len(set(plain)) != len(plain):
            self.problems.append(
                f"{name}: swift_gpus is {_shown(given)}. "
                "Give the number of GPUs, such as 8, or a list of indices, each once, such as [0, 1]."
            )
            return None
        return plain

    def _one_machine_twice(self, nodes: Sequence[_Node]) -> None:
        for one, two in combinations(nodes, 2):
            same = one.real_ips and one.real_ips == two.real_ips and one.hardware == two.hardware
            if same and not (one.colocated and two.colocated):
                self.problems.append(
                    _twice(one, two, enumerate_names([str(address) for address in sorted(one.real_ips)]))
                )

    def _find_candidates(self, node: _Node, owners: Mapping[ipaddress.IPv4Address, Sequence[_Node]]) -> None:
        """The given address, or all real ones that no other machine has as well."""
        if node.given is not None:
            node.candidates = [address for address in node.all if str(address.ip) == node.given]
            self._check_given(node)
            return
        node.candidates = [
            address
            for address in node.real
            if all(other is node or (other.colocated and node.colocated) for other in owners[address.ip])
        ]

    def _check_given(self, node: _Node) -> None:
        if not node.candidates:
            present = ", ".join(f"{address.ip} ({address.interface})" for address in node.all)
            self.problems.append(
                f"{node.name}: swift_cluster_ip is {node.given}, but no interface of this node has that address. "
                f"It has {present}. Correct it in the inventory."
            )
        elif is_loopback(str(node.given)) and len(self.nodes) > 1 and not self.one_machine:
            self.problems.append(
                f"{node.name}: swift_cluster_ip is {node.given}, which no other node can reach. "
                "Give its address in the network that the nodes share."
            )

    def _choose(self) -> None:
        if self.one_machine and len(self.nodes) > 1:
            self._choose_loopback()
        elif len(self.nodes) == 1:
            self._choose_alone(self.nodes[0])
        elif self.nodes:
            self._choose_shared()

    def _choose_loopback(self) -> None:
        for node in self.nodes:
            node.chosen = _pair(node.candidates[0]) if node.given else (_LOOPBACK, "lo")

    def _choose_alone(self, node: _Node) -> None:
        first = sorted(node.candidates, key=lambda address: not address.is_default)
        node.chosen = _pair(first[0]) if first else (_LOOPBACK, "lo")

    def _choose_shared(self) -> None:
        """The network in which every node has an address: the fastest, then the one with the default routes."""
        options = [option for network in self._networks() if (option := self._in_network(network)) is not None]
        if not options:
            self._choose_routed()
            return
        best = max(options, key=lambda option: (_slowest(option), sum(address.is_default for address in option)))
        for node, address in zip(self.nodes, best):
            node.chosen = _pair(address)

    def _networks(self) -> list[ipaddress.IPv4Network]:
        found = [address.network for node in self.nodes for address in node.candidates if address.network is not None]
        return list(dict.fromkeys(found))

    def _in_network(self, network: ipaddress.IPv4Network) -> list[Address] | None:
        """For each node its best address in the network, or nothing when a node has none."""
        chosen: list[Address] = []
        for node in self.nodes:
            inside = _network.in_network(node.candidates, network)
            if not inside:
                return None
            chosen.append(max(inside, key=lambda address: (address.speed, address.is_default)))
        return chosen

    def _choose_routed(self) -> None:
        """No common network: the default route's address, where no other node has the same."""
        for node in self.nodes:
            usable = [address for address in node.candidates if address.is_default or node.given]
            if usable:
                node.chosen = _pair(usable[0])
                continue
            present = ", ".join(f"{address.ip} ({address.interface})" for address in node.all)
            self.problems.append(
                f"{node.name}: no address of it is in a network with all other nodes (it has {present}). "
                "Set swift_cluster_ip for it in the inventory."
            )
        guessed = [node for node in self.nodes if node.chosen and not node.given]
        if guessed and not self.problems:
            listed = ", ".join(f"{node.name} {node.chosen[0]}" for node in guessed if node.chosen)
            self.warnings.append(
                f"No network holds an address of every node, so those of the default routes are used: {listed}. "
                "If training should take another way, set swift_cluster_ip for each node."
            )

    def _same_address_twice(self) -> None:
        for one, two in combinations(self.nodes, 2):
            if one.chosen and two.chosen and one.chosen[0] == two.chosen[0] and not (one.colocated and two.colocated):
                self.problems.append(_twice(one, two, one.chosen[0]))

    def _check_gpus(self) -> None:
        given = [node for node in self.nodes if node.gpus is not None]
        counts = Counter(len(node.gpus or []) for node in given)
        if len(counts) > 1 and unset(self.run.get("nproc_per_node")):
            listed = ", ".join(f"{node.name} {len(node.gpus or [])}" for node in given)
            self.problems.append(
                f"The nodes have different numbers of GPUs by swift_gpus ({listed}), and every node must run "
                f"the same number of processes. Set train_nproc_per_node to {min(counts)}, or correct swift_gpus."
            )
        for one, two in combinations(given, 2):
            shared = sorted(set(one.gpus or []) & set(two.gpus or []))
            if one.colocated and two.colocated and shared and one.real_ips == two.real_ips:
                self.problems.append(
                    f"{one.name} and {two.name} are on one machine and both have GPU {', '.join(map(str, shared))} "
                    "in swift_gpus. Give each its own."
                )

    def _master(self) -> str | None:
        first = self.nodes[0] if self.nodes else None
        given = self.run.get("master_addr")
        if unset(given):
            return first.chosen[0] if first and first.chosen else None
        address = str(given)
        if first and first.all:
            self._check_master(address, first)
        return address

    def _check_master(self, address: str, first: _Node) -> None:
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return  # a host name: rank 0 itself finds out whether it owns it
        if ip.is_loopback or any(candidate.ip == ip for candidate in first.all):
            return
        owners = [node.name for node in self.nodes if any(candidate.ip == ip for candidate in node.all)]
        whose = f"it belongs to {enumerate_names(owners)}" if owners else "no node of this run has it"
        own = first.chosen[0] if first.chosen else "one of its own"
        self.problems.append(
            f"train_master_addr is {address}, but rank 0 ({first.name}) does not own this address: {whose}. "
            f"Leave it empty, or give {own}."
        )

    def _placed(self, node: _Node) -> dict[str, Any]:
        address, interface = node.chosen or (None, None)
        return {
            "rank": node.rank,
            "cluster_ip": address,
            "socket_interface": interface,
            "gpus": node.gpus,
            "colocated": node.colocated,
        }


def _pair(address: Address) -> tuple[str, str]:
    return str(address.ip), address.interface


def _slowest(addresses: Sequence[Address]) -> int:
    return min(address.speed for address in addresses)


def _twice(one: _Node, two: _Node, where: str) -> str:
    return (
        f"{one.name} and {two.name} are one machine: both have {where}. Remove one of them from swift_nodes, "
        "or set swift_colocated: true for both if two nodes on one machine are meant."
    )


def _shown(value: Any) -> str:
    return repr(list(value)) if isinstance(value, (list, tuple)) else repr(value)
