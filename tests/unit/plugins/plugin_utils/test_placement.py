# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of placing ranks: addresses, interfaces, GPUs. The facts are synthetic, as Ansible would gather them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _network
from ansible_collections.trainyard.swift.plugins.plugin_utils._placement import placement
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse
from hypothesis import given
from hypothesis import strategies as st

LO = {
    "device": "lo",
    "type": "loopback",
    "active": True,
    "ipv4": {"address": "127.0.0.1", "netmask": "255.0.0.0", "prefix": "8"},
}
DOCKER = {
    "device": "docker0",
    "type": "bridge",
    "active": False,
    "ipv4": {"address": "172.17.0.1", "netmask": "255.255.0.0", "prefix": "16"},
}


def nic(name: str, address: str, prefix: int = 24, speed: int = 25000, **more: Any) -> dict[str, Any]:
    return {
        "device": name,
        "type": "ether",
        "active": True,
        "speed": speed,
        "mtu": 1500,
        "ipv4": {"address": address, "prefix": str(prefix)},
        **more,
    }


def facts(*nics: dict[str, Any], default: str | None = None) -> dict[str, Any]:
    """What ansible_facts has of these interfaces; the first one has the default route."""
    by_name = {entry["device"].replace("-", "_"): entry for entry in (LO, DOCKER, *nics)}
    first = nics[0] if nics else LO
    address = default if default is not None else first["ipv4"]["address"]
    return {
        "interfaces": [entry["device"] for entry in (LO, DOCKER, *nics)],
        "all_ipv4_addresses": [entry["ipv4"]["address"] for entry in nics],
        "default_ipv4": {"address": address, "interface": first["device"], "macaddress": f"02:{address}"}
        if address
        else {},
        **by_name,
    }


def cluster(*hosts: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    names = [f"node{index + 1}" for index in range(len(hosts))]
    nodes = [
        {"name": name, "rank": rank, "address": name, "colocated": bool(host.get("swift_colocated"))}
        for rank, (name, host) in enumerate(zip(names, hosts))
    ]
    ranks = {name: rank for rank, name in enumerate(names)}
    rank_map = {
        "nnodes": len(names),
        "rank0": names[0] if names else "",
        "nodes": nodes,
        "ranks": ranks,
        "problems": [],
    }
    return rank_map, dict(zip(names, hosts))


def host(*nics: dict[str, Any], default: str | None = None, **variables: Any) -> dict[str, Any]:
    return {"ansible_facts": facts(*nics, default=default), **variables}


def place(*hosts: dict[str, Any], **run: Any) -> dict[str, Any]:
    rank_map, hostvars = cluster(*hosts)
    return placement(rank_map, hostvars, run)


def ways(found: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(node["cluster_ip"], node["socket_interface"]) for node in found["nodes"].values()]


def test_the_seeds_four_nodes() -> None:
    found = place(*(host(nic("bond0", f"10.112.36.{last}")) for last in (7, 8, 9, 10)))
    assert found["problems"] == found["warnings"] == []
    assert found["master_addr"] == "10.112.36.7"
    assert found["nodes"]["node4"] == {
        "rank": 3,
        "cluster_ip": "10.112.36.10",
        "socket_interface": "bond0",
        "gpus": None,
        "colocated": False,
    }


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        pytest.param(
            [
                host(nic("eno1", "192.168.1.1", speed=1000), nic("bond0", "10.0.0.1", speed=25000)),
                host(nic("eno1", "192.168.1.2", speed=1000), nic("bond0", "10.0.0.2", speed=25000)),
            ],
            [("10.0.0.1", "bond0"), ("10.0.0.2", "bond0")],
            id="the fastest of two networks",
        ),
        pytest.param(
            [
                host(nic("eno1", "192.168.1.1"), nic("bond0", "10.0.0.1")),
                host(nic("eno1", "192.168.1.2"), nic("bond0", "10.0.0.2")),
            ],
            [("192.168.1.1", "eno1"), ("192.168.1.2", "eno1")],
            id="equally fast: the default routes",
        ),
        pytest.param(
            [
                host(nic("eno1", "192.168.1.1", speed=-1), nic("fast0", "10.0.0.1", speed=100000)),
                host(nic("eth0", "192.168.1.2", speed=-1), nic("other", "10.9.0.2", speed=100000)),
            ],
            [("192.168.1.1", "eno1"), ("192.168.1.2", "eth0")],
            id="only one network is common, names differ",
        ),
        pytest.param(
            [
                host(nic("br-lan", "10.5.0.1"), nic("eth0", "10.0.0.1")),
                host(nic("br-lan", "10.5.0.2"), nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="a bridge of Docker is no way, whatever the default route",
        ),
        pytest.param(
            [
                host(nic("virbr0", "192.168.122.1"), nic("eth0", "10.0.0.1")),
                host(nic("virbr0", "192.168.122.1"), nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="an address that both have",
        ),
        pytest.param(
            [
                host(nic("usb0", "169.254.0.1"), nic("eth0", "10.0.0.1")),
                host(nic("usb0", "169.254.0.2"), nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="link-local addresses",
        ),
        pytest.param(
            [
                host(nic("dead0", "10.9.0.1", speed=100000, active=False), nic("eth0", "10.0.0.1")),
                host(nic("dead0", "10.9.0.2", speed=100000, active=False), nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="an interface that is down",
        ),
        pytest.param(
            [
                host(
                    nic("eth0", "192.168.7.1", ipv4_secondaries=[{"address": "10.0.0.1", "netmask": "255.255.255.0"}])
                ),
                host(nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="a second address",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1", 16)), host(nic("eth0", "10.0.7.2", 24))],
            [("10.0.0.1", "eth0"), ("10.0.7.2", "eth0")],
            id="networks of two sizes",
        ),
        pytest.param(
            [
                host(nic("eth0", "10.0.0.1"), nic("eth1", "10.7.0.1"), swift_cluster_ip="10.7.0.1"),
                host(nic("eth0", "10.7.0.2")),
            ],
            [("10.7.0.1", "eth1"), ("10.7.0.2", "eth0")],
            id="one is given",
        ),
        pytest.param([host(nic("eth0", "10.0.0.1"), nic("eth1", "10.1.0.1"))], [("10.0.0.1", "eth0")], id="one node"),
        pytest.param([host(nic("docker1", "10.0.0.1"))], [("127.0.0.1", "lo")], id="one node without any network"),
        pytest.param(
            [host(nic("eth0", "10.0.0.1"), nic("bond0.7", "10.1.0.1"), swift_cluster_ip="10.1.0.1")],
            [("10.1.0.1", "bond0.7")],
            id="one, given",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1"), swift_colocated=True), host(nic("eth0", "10.0.0.1"), swift_colocated=True)],
            [("127.0.0.1", "lo"), ("127.0.0.1", "lo")],
            id="all on one machine",
        ),
        pytest.param(
            [
                host(nic("eth0", "10.0.0.1"), swift_colocated=True, swift_cluster_ip="10.0.0.1"),
                host(nic("eth0", "10.0.0.1"), swift_colocated=True, swift_cluster_ip="10.0.0.1"),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.1", "eth0")],
            id="all on one machine, addresses given",
        ),
        pytest.param(
            [
                host(nic("eth0", "10.0.0.1"), swift_colocated=True),
                host(nic("eth0", "10.0.0.1"), swift_colocated=True),
                host(nic("eth0", "10.0.0.2")),
            ],
            [("10.0.0.1", "eth0"), ("10.0.0.1", "eth0"), ("10.0.0.2", "eth0")],
            id="two of three on one machine",
        ),
        pytest.param(
            [host(swift_colocated=True, default=""), host(swift_colocated=True, default="")],
            [("127.0.0.1", "lo"), ("127.0.0.1", "lo")],
            id="one machine without any network",
        ),
        pytest.param([], [], id="no nodes"),
    ],
)
def test_ways(hosts: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    found = place(*hosts)
    assert found["problems"] == []
    assert found["warnings"] == []
    assert ways(found) == expected
    assert found["master_addr"] == (expected[0][0] if expected else None)


def test_routed_networks_are_used_with_a_warning() -> None:
    found = place(host(nic("eth0", "10.1.0.1", 32)), host(nic("eth0", "10.2.0.1", 24)))
    assert ways(found) == [("10.1.0.1", "eth0"), ("10.2.0.1", "eth0")]
    (warning,) = found["warnings"]
    assert "node1 10.1.0.1, node2 10.2.0.1" in warning
    assert "set swift_cluster_ip" in warning


def test_given_addresses_in_different_networks_are_the_users_business() -> None:
    found = place(
        host(nic("eth0", "10.1.0.1"), swift_cluster_ip="10.1.0.1"),
        host(nic("eth0", "10.2.0.1"), swift_cluster_ip="10.2.0.1"),
    )
    assert found["problems"] == found["warnings"] == []


@pytest.mark.parametrize(
    ("hosts", "run", "parts"),
    [
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), {"ansible_facts": {}}],
            {},
            ["node2: its network facts name no interface", "iproute2"],
            id="no facts",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), {}],
            {},
            ["node2: its network facts name no interface"],
            id="no facts at all",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), host(nic("docker1", "10.0.0.2"))],
            {},
            [
                "node2: no address of it is in a network with all other nodes",
                "10.0.0.2 (docker1)",
                "Set swift_cluster_ip for it",
            ],
            id="no usable address",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1"), swift_cluster_ip="10.0.0.9"), host(nic("eth0", "10.0.0.2"))],
            {},
            ["node1: swift_cluster_ip is 10.0.0.9, but no interface of this node has that address", "10.0.0.1 (eth0)"],
            id="a given address that is not there",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1"), swift_cluster_ip="127.0.0.1"), host(nic("eth0", "10.0.0.2"))],
            {},
            ["node1: swift_cluster_ip is 127.0.0.1, which no other node can reach"],
            id="a given loopback",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), host(nic("eth0", "10.0.0.1"))],
            {},
            ["node1 and node2 are one machine: both have 10.0.0.1", "swift_colocated: true for both"],
            id="one machine",
        ),
        pytest.param(
            [
                host(nic("eth0", "10.0.0.1"), swift_cluster_ip="10.0.0.1"),
                host(nic("eth0", "10.0.0.1"), default="", swift_cluster_ip="10.0.0.1"),
            ],
            {},
            ["node1 and node2 are one machine: both have 10.0.0.1"],
            id="one given address twice",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), host(nic("eth0", "10.0.0.2"))],
            {"master_addr": "10.0.0.2"},
            [
                "train_master_addr is 10.0.0.2, but rank 0 (node1) does not own this address: it belongs to node2",
                "or give 10.0.0.1",
            ],
            id="master on another node",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1")), host(nic("eth0", "10.0.0.2"))],
            {"master_addr": "10.0.0.77"},
            ["no node of this run has it"],
            id="master nowhere",
        ),
        pytest.param(
            [host(nic("eth0", "10.0.0.1"), swift_gpus=8), host(nic("eth0", "10.0.0.2"), swift_gpus=[0, 1])],
            {},
            ["different numbers of GPUs by swift_gpus (node1 8, node2 2)", "Set train_nproc_per_node to 2"],
            id="unequal GPUs",
        ),
        *(
            pytest.param(
                [host(nic("eth0", "10.0.0.1"), swift_gpus=given)],
                {},
                ["node1: swift_gpus is", "a list of indices"],
                id=f"gpus {given}",
            )
            for given in ("all", [0, 0], [-1], -1, ["x"], True, {"a": 1})
        ),
        pytest.param(
            [
                host(nic("eth0", "10.0.0.1"), swift_colocated=True, swift_gpus=[0, 1]),
                host(nic("eth0", "10.0.0.1"), swift_colocated=True, swift_gpus=[1, 2]),
            ],
            {},
            ["node1 and node2 are on one machine and both have GPU 1 in swift_gpus"],
            id="one GPU for two nodes",
        ),
    ],
)
def test_problems(hosts: list[dict[str, Any]], run: dict[str, Any], parts: list[str]) -> None:
    (problem,) = place(*hosts, **run)["problems"]
    for part in parts:
        assert part in problem


def test_a_variable_that_cannot_be_read() -> None:
    class Broken(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "swift_cluster_ip":
                raise ValueError("'vip' is undefined")
            return super().get(key, default)

    (problem,) = place(Broken(host(nic("eth0", "10.0.0.1"))))["problems"]
    assert (
        problem
        == "node1: the variable swift_cluster_ip cannot be read: 'vip' is undefined. Correct it in the inventory."
    )


def test_problems_leave_nothing_chosen() -> None:
    found = place(host(nic("eth0", "10.0.0.1")), {}, master_addr="10.0.0.9")
    assert ways(found) == [(None, None), (None, None)]
    assert len(found["problems"]) == 2
    assert "or give one of its own" in found["problems"][1]


def test_given_master_without_facts_of_rank_0() -> None:
    (problem,) = place({}, host(nic("eth0", "10.0.0.2")), master_addr="10.0.0.1")["problems"]
    assert problem.startswith("node1: its network facts name no interface")


@pytest.mark.parametrize("hosts", [[{}], [{"swift_colocated": True}, {"swift_colocated": True}]])
def test_one_machine_needs_no_network_facts(hosts: list[dict[str, Any]]) -> None:
    """As in a pod without the program 'ip'."""
    found = place(*hosts)
    assert found["problems"] == []
    assert found["master_addr"] == "127.0.0.1"
    assert ways(found) == [("127.0.0.1", "lo")] * len(hosts)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.1.0.1", "gpu7.cluster", "127.0.0.1"])
def test_given_master(address: str) -> None:
    found = place(
        host(nic("eth0", "10.0.0.1"), nic("eth1", "10.1.0.1")), host(nic("eth0", "10.0.0.2")), master_addr=address
    )
    assert (found["master_addr"], found["problems"]) == (address, [])


@pytest.mark.parametrize(
    ("given", "gpus"),
    [(8, [0, 1, 2, 3, 4, 5, 6, 7]), ("2", [0, 1]), ([4, "5"], [4, 5]), (0, []), (None, None), ("", None)],
)
def test_gpus(given: Any, gpus: list[int] | None) -> None:
    assert place(host(nic("eth0", "10.0.0.1"), swift_gpus=given))["nodes"]["node1"]["gpus"] == gpus


def test_unequal_gpus_with_a_given_number_of_processes() -> None:
    hosts = (host(nic("eth0", "10.0.0.1"), swift_gpus=8), host(nic("eth0", "10.0.0.2"), swift_gpus=4))
    assert place(*hosts, nproc_per_node=4)["problems"] == []


@pytest.mark.parametrize(
    "name",
    [
        "lo",
        "docker0",
        "veth1a2b",
        "virbr0",
        "br-1a2b",
        "cni0",
        "flannel.1",
        "tun0",
        "tap0",
        "ip6tnl0",
        "sit0",
        "tailscale0",
        "wg0",
        "calic1",
        "vxlan.calico",
    ],
)
def test_virtual_interfaces(name: str) -> None:
    assert _network.is_virtual(name)


@pytest.mark.parametrize(
    "name", ["eth0", "eno1", "ens5f0np0", "bond0", "bond0.2093", "br0", "ib0", "enp1s0", "team0", "loki0", "vlan7"]
)
def test_real_interfaces(name: str) -> None:
    assert not _network.is_virtual(name)


@pytest.mark.parametrize(
    "broken",
    [
        {"interfaces": ["eth0"]},
        {"interfaces": ["eth0"], "eth0": {"device": "eth0", "ipv4": {"address": "nonsense"}}},
        {"interfaces": ["eth0"], "eth0": "nonsense"},
        {"interfaces": "eth0", "default_ipv4": []},
    ],
)
def test_odd_facts(broken: dict[str, Any]) -> None:
    assert _network.addresses(broken) == []


def test_odd_prefix() -> None:
    (address,) = _network.addresses(
        {"interfaces": ["eth0"], "eth0": {"ipv4": {"address": "10.0.0.1", "prefix": "x"}, "speed": "fast"}}
    )
    assert (address.network, address.speed, address.interface) == (None, 0, "eth0")


@pytest.mark.parametrize(
    ("rank_map", "hostvars", "run"), [({}, {}, {}), (cluster()[0], [], {}), (cluster()[0], {}, None)]
)
def test_misuse(rank_map: Any, hostvars: Any, run: Any) -> None:
    with pytest.raises(Misuse):
        placement(rank_map, hostvars, run)


@given(st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_every_node_gets_an_address_of_its_own(count: int, seed: int) -> None:
    hosts = [
        host(
            nic("eth0", f"10.{seed % 200}.0.{index + 1}", speed=1000),
            nic("ib0", f"172.20.{seed % 250}.{index + 1}", speed=seed % 400000),
        )
        for index in range(count)
    ]
    found = place(*hosts)
    assert found["problems"] == []
    addresses = [node["cluster_ip"] for node in found["nodes"].values()]
    assert len(set(addresses)) == count
    assert len({node["socket_interface"] for node in found["nodes"].values()}) == 1
    assert found["master_addr"] == addresses[0]
