# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a job from starting: problems of single nodes, and what makes the nodes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_mapping,
    a_rank_map,
    enumerate_names,
    list_or_empty,
    mapping_or_empty,
    names_in_order,
)

_ACTIONS = {
    "start": "would start",
    "attach": "runs already",
    "none": "has finished already",
    "stop": "would stop",
}


def plan_problems(results: Any, rank_map: Any) -> list[str]:
    """All reasons why this plan cannot be carried out, over all nodes."""
    by_name = a_mapping(results, "The results")
    names = names_in_order(a_rank_map(rank_map))
    plans = {name: mapping_or_empty(by_name.get(name)) for name in names}
    own = _own_problems(plans)
    good = {name: plan for name, plan in plans.items() if name not in own.names}
    return [*own.sentences, *_shared_folders(plans), *_differences(good)]


def picked_checkpoint(results: Any, rank_map: Any) -> str | None:
    """Path of the newest checkpoint that is complete on rank 0 and present on every node, or nothing.

    The newest is the last of the newest run: an older run into the same folder may have come further.
    """
    by_name = a_mapping(results, "The results")
    names = names_in_order(a_rank_map(rank_map))
    lists = [_checkpoints(mapping_or_empty(by_name.get(name))) for name in names]
    if not lists:
        return None
    everywhere = set(lists[0]).intersection(*(set(paths) for paths in lists[1:]))
    usable = [path for path, entry in lists[0].items() if path in everywhere and entry.get("complete")]
    return usable[-1] if usable else None


class _Own:
    """Problems of single nodes; equal sentences of several nodes become one."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.by_text: dict[str, list[str]] = {}

    def add(self, name: str, text: str) -> None:
        self.names.add(name)
        self.by_text.setdefault(text, []).append(name)

    @property
    def sentences(self) -> list[str]:
        return [f"{', '.join(names)}: {text}" for text, names in self.by_text.items()]


def _own_problems(plans: Mapping[str, Mapping[str, Any]]) -> _Own:
    own = _Own()
    for name, plan in plans.items():
        for text in _problems_of(plan):
            own.add(name, text)
    return own


def _problems_of(plan: Mapping[str, Any]) -> list[str]:
    if plan.get("unreachable"):
        return [f"it could not be reached ({_message(plan)}). A job runs on all nodes or on none: bring it back first."]
    stated = [str(problem) for problem in list_or_empty(plan.get("problems"))]
    if stated:
        return stated
    if plan.get("failed") or (plan and "action" not in plan):
        return [f"the plan failed: {_message(plan)}"]
    if not plan:
        return ["it gave no plan. A job runs on all nodes or on none: run again with all nodes of swift_nodes."]
    return []


def _message(plan: Mapping[str, Any]) -> str:
    text = str(plan.get("msg") or plan.get("module_stderr") or plan.get("exception") or "").strip()
    return text.splitlines()[0].rstrip(".") if text else "no reason given"


def _shared_folders(plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Nodes that would write into each other's files: names of one machine with one jobs directory."""
    folders = _groups({name: plan["jobs_dir_id"] for name, plan in plans.items() if plan.get("jobs_dir_id")})
    return [
        f"{enumerate_names(names)} share one machine and one jobs directory there, where each would take the other's job "
        "for its own. Give each a train_jobs_dir of its own in the inventory (host_vars)."
        for _folder, names in folders
        if len(names) > 1
    ]


def _differences(plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found = [
        _unequal(
            plans,
            "nproc_per_node",
            "the nodes would run different numbers of processes",
            "Every node must run the same number: set train_nproc_per_node, or make the same GPUs visible everywhere.",
        ),
        _unequal(
            plans,
            "trainer_version",
            "the nodes have different versions of ms-swift",
            "Bring one version to all nodes: with runtime docker by one image, with runtime host by one installation.",
        ),
        _unequal(
            plans,
            "container_image",
            "the containers come from different images",
            "Run provision.yml to give all nodes the same image.",
        ),
        _action_mix(plans),
    ]
    files = _file_differences(plans)
    if not files:
        found.append(_argv_difference(plans))
    return [*(text for text in found if text), *files]


def _unequal(plans: Mapping[str, Mapping[str, Any]], key: str, what: str, remedy: str) -> str | None:
    groups = _groups({name: plan.get(key) for name, plan in plans.items()})
    if len(groups) < 2:
        return None
    listed = "; ".join(f"{enumerate_names(names)}: {'unknown' if value is None else value}" for value, names in groups)
    return f"{_capital(what)} ({listed}). {remedy}"


def _groups(values: Mapping[str, Any]) -> list[tuple[Any, list[str]]]:
    """Nodes by equal value, in the order of ranks."""
    groups: list[tuple[Any, list[str]]] = []
    for name, value in values.items():
        for known, names in groups:
            if known == value:
                names.append(name)
                break
        else:
            groups.append((value, [name]))
    return groups


def _action_mix(plans: Mapping[str, Mapping[str, Any]]) -> str | None:
    groups = _groups({name: plan.get("action") for name, plan in plans.items()})
    if len(groups) < 2:
        return None
    listed = "; ".join(
        f"{name} {_ACTIONS.get(str(plan.get('action')), plan.get('action'))} (state {plan.get('state', 'unknown')})"
        for name, plan in plans.items()
    )
    return (
        f"The nodes are not at the same point: {listed}. "
        "Stop what is left of the job with stop.yml, then run again; or set train_replace=true to stop and start it."
    )


def _file_differences(plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    patterns = dict.fromkeys(pattern for plan in plans.values() for pattern in mapping_or_empty(plan.get("files")))
    found: list[str] = []
    for pattern in patterns:
        lists = {
            name: [str(path) for path in list_or_empty(mapping_or_empty(plan.get("files")).get(pattern))]
            for name, plan in plans.items()
        }
        if len(_groups(lists)) > 1:
            found.append(_file_difference(str(pattern), lists))
    return found


def _file_difference(pattern: str, lists: Mapping[str, list[str]]) -> str:
    (first, known), *others = lists.items()
    other, paths = next((name, paths) for name, paths in others if paths != known)
    only = sorted(set(known) ^ set(paths))
    if only:
        where, missing = (first, other) if only[0] in known else (other, first)
        detail = f"{only[0]} is on {where} and not on {missing}"
    else:
        detail = f"the order on {first} and {other} differs"
    counts = ", ".join(f"{name} {len(paths)}" for name, paths in lists.items())
    return (
        f"{pattern} matches different files on the nodes ({counts}): {detail}. "
        "All nodes must read the same data: put it on shared storage, or copy it to every node."
    )


def _argv_difference(plans: Mapping[str, Mapping[str, Any]]) -> str | None:
    values = {name: [str(word) for word in list_or_empty(plan.get("argv"))] for name, plan in plans.items()}
    groups = _groups(values)
    if len(groups) < 2:
        return None
    (one, names), (two, others) = groups[0], groups[1]
    position = next((at for at, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two)))
    here, there = (" ".join(words[max(0, position - 1) : position + 1]) or "nothing" for words in (one, two))
    return (
        f"The nodes would run different commands: {enumerate_names(names)} has {here!r} where "
        f"{enumerate_names(others)} has {there!r}. Give arguments once for all nodes, not in host_vars."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _checkpoints(plan: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries: Sequence[Any] = list_or_empty(plan.get("checkpoints"))
    return {str(entry["path"]): entry for entry in entries if isinstance(entry, Mapping) and entry.get("path")}
