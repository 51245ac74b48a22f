# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of comparing the nodes' plans."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils._plan import picked_checkpoint, plan_problems
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse

ARGV = ["swift", "pt", "--model", "/m", "--lr", "1e-5"]


def rank_map(count: int = 2) -> dict[str, Any]:
    names = [f"node{index + 1}" for index in range(count)]
    return {
        "nnodes": count,
        "nodes": [{"name": name, "rank": rank, "address": name, "colocated": False} for rank, name in enumerate(names)],
        "ranks": {name: rank for rank, name in enumerate(names)},
    }


def plan(**changes: Any) -> dict[str, Any]:
    return {
        "action": "start",
        "state": "absent",
        "nproc_per_node": 8,
        "trainer_version": "4.6.0",
        "container_image": "sha256:aa",
        "files": {"/d/*.jsonl": ["/d/1.jsonl", "/d/2.jsonl"]},
        "argv": ARGV,
        "checkpoints": [],
        **changes,
    }


def problems(*plans: Any) -> list[str]:
    names = [f"node{index + 1}" for index in range(len(plans))]
    return plan_problems({name: found for name, found in zip(names, plans) if found is not None}, rank_map(len(plans)))


@pytest.mark.parametrize("action", ["start", "attach", "none"])
def test_equal_plans(action: str) -> None:
    assert problems(*(plan(action=action) for _node in range(4))) == []


@pytest.mark.parametrize(
    ("plans", "parts"),
    [
        pytest.param([plan(), None], ["node2: it gave no plan."], id="no result"),
        pytest.param([plan(), {}], ["node2: it gave no plan."], id="an empty result"),
        pytest.param([plan(), "odd"], ["node2: it gave no plan."], id="an odd result"),
        pytest.param(
            [{"unreachable": True, "msg": "Connection refused.\nmore"}, plan()],
            ["node1: it could not be reached (Connection refused). A job runs on all nodes or on none"],
            id="unreachable",
        ),
        pytest.param(
            [{"failed": True}, plan()], ["node1: the plan failed: no reason given"], id="failed without words"
        ),
        pytest.param(
            [{"failed": False, "msg": "boom"}, plan()], ["node1: the plan failed: boom"], id="failed, and allowed to"
        ),
        pytest.param(
            [{"failed": False, "msg": "x", "problems": ["The glob /d/* matches nothing."]}] * 2,
            ["node1, node2: The glob /d/* matches nothing."],
            id="one problem of two nodes",
        ),
        pytest.param(
            [plan(), plan(nproc_per_node=7), plan()],
            [
                "The nodes would run different numbers of processes (node1 and node3: 8; node2: 7).",
                "set train_nproc_per_node",
            ],
            id="processes",
        ),
        pytest.param(
            [plan(), plan(trainer_version="4.5.2")],
            ["different versions of ms-swift (node1: 4.6.0; node2: 4.5.2)"],
            id="versions",
        ),
        pytest.param([plan(), plan(trainer_version=None)], ["(node1: 4.6.0; node2: unknown)"], id="unknown version"),
        pytest.param(
            [plan(), plan(container_image="sha256:bb")],
            ["different images (node1: sha256:aa; node2: sha256:bb)"],
            id="images",
        ),
        pytest.param(
            [plan(action="attach", state="running"), plan(state="lost")],
            ["node1 runs already (state running); node2 would start (state lost)", "stop.yml", "train_replace=true"],
            id="actions",
        ),
        pytest.param([plan(action="odd"), plan()], ["node1 odd (state absent)"], id="an odd action"),
        pytest.param(
            [plan(), plan(files={"/d/*.jsonl": ["/d/1.jsonl"]}, argv=[*ARGV, "x"])],
            [
                "/d/*.jsonl matches different files on the nodes (node1 2, node2 1)",
                "/d/2.jsonl is on node1 and not on node2.",
            ],
            id="a file is missing",
        ),
        pytest.param(
            [plan(), plan(), plan(files={"/d/*.jsonl": ["/d/0.jsonl", "/d/1.jsonl", "/d/2.jsonl"]})],
            ["(node1 2, node2 2, node3 3): /d/0.jsonl is on node3 and not on node1."],
            id="a file too many",
        ),
        pytest.param([plan(), plan(files={})], ["(node1 2, node2 0)"], id="pattern not resolved"),
        pytest.param(
            [plan(), plan(files={"/d/*.jsonl": ["/d/2.jsonl", "/d/1.jsonl"]})],
            ["the order on node1 and node2 differs"],
            id="order",
        ),
        pytest.param(
            [plan(), plan(argv=[*ARGV[:-1], "2e-5"])],
            ["node1 has '--lr 1e-5' where node2 has '--lr 2e-5'"],
            id="another value",
        ),
        pytest.param([plan(), plan(argv=ARGV[:4])], ["node1 has '/m --lr' where node2 has '/m'"], id="a flag less"),
        pytest.param([plan(argv=[]), plan()], ["node1 has 'nothing' where node2 has 'swift'"], id="no words"),
    ],
)
def test_problems(plans: list[Any], parts: list[str]) -> None:
    (problem,) = problems(*plans)
    for part in parts:
        assert part in problem


def test_nodes_with_one_jobs_directory() -> None:
    folders = ("boot:1:2", "boot:1:3", "boot:1:2", None, None)
    (problem,) = problems(*(plan(jobs_dir_id=folder) for folder in folders))
    assert problem.startswith("node1 and node3 share one machine and one jobs directory there")
    assert "train_jobs_dir of its own" in problem


def test_all_problems_at_once() -> None:
    found = problems(plan(), {"problems": ["one", "two"]}, plan(nproc_per_node=4, trainer_version="3.12.0"))
    assert found[:2] == ["node2: one", "node2: two"]
    assert len(found) == 4


def checkpoint(step: int, complete: bool = True, version: int = 0) -> dict[str, Any]:
    return {"path": f"/o/v{version}-x/checkpoint-{step}", "step": step, "complete": complete}


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ([], [], None),
        ([checkpoint(5)], [], None),
        ([checkpoint(5), checkpoint(10)], [checkpoint(10), checkpoint(5)], "/o/v0-x/checkpoint-10"),
        ([checkpoint(5), checkpoint(10)], [checkpoint(5)], "/o/v0-x/checkpoint-5"),
        ([checkpoint(5), checkpoint(10, complete=False)], [checkpoint(5), checkpoint(10)], "/o/v0-x/checkpoint-5"),
        ([checkpoint(5)], [checkpoint(5, complete=False)], "/o/v0-x/checkpoint-5"),
        ([checkpoint(5, version=9), checkpoint(5, version=10)],) * 2 + ("/o/v10-x/checkpoint-5",),
        # A run started anew into the same folder counts, though the one before it came further.
        ([checkpoint(900, version=0), checkpoint(5, version=1)],) * 2 + ("/o/v1-x/checkpoint-5",),
        ([checkpoint(900, version=0), checkpoint(5, False, version=1)],) * 2 + ("/o/v0-x/checkpoint-900",),
        (["odd", {"step": 3}], [], None),
    ],
)
def test_picked_checkpoint(first: list[Any], second: list[Any], path: str | None) -> None:
    results = {"node1": {"checkpoints": first}, "node2": {"checkpoints": second}}
    assert picked_checkpoint(results, rank_map()) == path


def test_no_checkpoint_without_nodes_or_answers() -> None:
    assert picked_checkpoint({}, rank_map(0)) is None
    assert picked_checkpoint({"node1": {"checkpoints": [checkpoint(5)]}}, rank_map()) is None


@pytest.mark.parametrize(("results", "ranks"), [([], rank_map()), ({}, {}), ({}, None)])
def test_misuse(results: Any, ranks: Any) -> None:
    with pytest.raises(Misuse):
        plan_problems(results, ranks)
    with pytest.raises(Misuse):
        picked_checkpoint(results, ranks)
