# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Careful reading of what a playbook hands to a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Misuse(TypeError):
    """The playbook gives a filter something of the wrong kind; a mistake of its author, not of its user."""


def a_list(value: Any, what: str) -> list[Any]:
    """This value as a plain list."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    raise Misuse(f"{what} must be a list, not {type(value).__name__}.")


def a_mapping(value: Any, what: str) -> Mapping[str, Any]:
    """This value, known to be a mapping."""
    if isinstance(value, Mapping):
        return value
    raise Misuse(f"{what} must be a mapping, not {type(value).__name__}.")


def variable(hostvars: Mapping[str, Any], host: str, name: str) -> tuple[Any, str | None]:
    """One variable of a host, and the problem when its value cannot be had: templates are resolved on access."""
    try:
        value = hostvars[host].get(name)
        str(value)  # an undefined value is handed out without an error, and fails when it is used
    except Exception as exc:
        reason = (str(exc).strip() or type(exc).__name__).splitlines()[0].rstrip(".")
        return None, f"{host}: the variable {name} cannot be read: {reason}. Correct it in the inventory."
    return value, None


def a_rank_map(value: Any) -> Mapping[str, Any]:
    """This value, known to look like the result of filter C(rank_map)."""
    rank_map = a_mapping(value, "The rank map")
    if "nodes" not in rank_map or "ranks" not in rank_map:
        raise Misuse("The rank map must be a result of the filter trainyard.swift.rank_map.")
    return rank_map


def names_in_order(rank_map: Mapping[str, Any]) -> list[str]:
    """The nodes by rank."""
    return [str(node["name"]) for node in rank_map["nodes"]]


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """This mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def list_or_empty(value: Any) -> list[Any]:
    """This list, or an empty one for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def unset(value: Any) -> bool:
    """Whether a setting was left empty."""
    return value is None or (isinstance(value, str) and not value.strip())


def integer(value: Any) -> int | None:
    """The integer that this is or spells, or nothing."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip())
    return None


def truth(value: Any) -> bool:
    """Ansible's reading of a yes or no."""
    return str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t")


def kind(value: Any) -> str:
    """What a user calls this type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "text" if isinstance(value, str) else f"of the type {type(value).__name__}"


def enumerate_names(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
