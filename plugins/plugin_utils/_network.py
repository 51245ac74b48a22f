# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network addresses of a node, as its facts tell them, and which of them can carry training traffic."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import list_or_empty, mapping_or_empty

#: Interfaces of containers, virtual machines and tunnels: never the way to another node.
_VIRTUAL = re.compile(
    r"lo\d*\Z|docker|veth|virbr|vnet|br-|cni|flannel|cali|cilium|weave|kube|nodelocaldns|podman|lxc|lxd|lxdbr|incusbr"
    r"|tun|tap|tunl|ip6tnl|sit\d|gre|erspan|ip_vti|ip6_vti|ip6gre|vxlan|geneve|tailscale|wg|zt|utun|dummy|ifb|ovs-system"
)


@dataclass(frozen=True)
class Address:
    """One IPv4 address of a node."""

    interface: str
    ip: ipaddress.IPv4Address
    network: ipaddress.IPv4Network | None
    speed: int
    is_default: bool
    is_real: bool


def addresses(facts: Mapping[str, Any]) -> list[Address]:
    """All IPv4 addresses in Ansible's facts of a node, in the order of its interfaces."""
    default = str(mapping_or_empty(facts.get("default_ipv4")).get("address", ""))
    found: list[Address] = []
    for name in list_or_empty(facts.get("interfaces")):
        interface = _interface(facts, str(name))
        for entry in _entries(interface):
            ip = _ip(entry.get("address"))
            if ip is not None:
                found.append(_address(str(interface.get("device", name)), ip, entry, interface, str(ip) == default))
    return found


def default_address(facts: Mapping[str, Any]) -> str:
    """The address of the default route, or nothing."""
    return str(mapping_or_empty(facts.get("default_ipv4")).get("address", ""))


def hardware(facts: Mapping[str, Any]) -> str:
    """The hardware address of the default route's interface, or nothing."""
    return str(mapping_or_empty(facts.get("default_ipv4")).get("macaddress", ""))


def is_virtual(interface: str) -> bool:
    """Whether this is an interface of containers, virtual machines or tunnels by its name."""
    return _VIRTUAL.match(interface) is not None


def in_network(candidates: Iterable[Address], network: ipaddress.IPv4Network) -> list[Address]:
    """Those addresses that lie in the network."""
    return [candidate for candidate in candidates if candidate.ip in network]


def _interface(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Facts keep an interface under its name with hyphens and colons replaced."""
    for key in (name, re.sub(r"[-:]", "_", name)):
        if key in facts:
            return mapping_or_empty(facts[key])
    return {}


def _entries(interface: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    first = mapping_or_empty(interface.get("ipv4"))
    more = [mapping_or_empty(entry) for entry in list_or_empty(interface.get("ipv4_secondaries"))]
    return [entry for entry in [first, *more] if entry]


def _address(
    name: str, ip: ipaddress.IPv4Address, entry: Mapping[str, Any], interface: Mapping[str, Any], is_default: bool
) -> Address:
    real = (
        not is_virtual(name)
        and interface.get("type") not in ("loopback", "tunnel")
        and interface.get("active", True) is not False
        and not (ip.is_loopback or ip.is_link_local or ip.is_unspecified)
    )
    return Address(name, ip, _network(ip, entry), _speed(interface.get("speed")), is_default, real)


def _network(ip: ipaddress.IPv4Address, entry: Mapping[str, Any]) -> ipaddress.IPv4Network | None:
    size = entry.get("prefix") or entry.get("netmask")
    try:
        network = ipaddress.IPv4Network(f"{ip}/{size}", strict=False)
    except ValueError:
        return None
    return network if network.prefixlen < 32 else None


def _ip(value: Any) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv4Address(str(value))
    except ValueError:
        return None


def _speed(value: Any) -> int:
    return int(value) if isinstance(value, int) and value > 0 else 0
