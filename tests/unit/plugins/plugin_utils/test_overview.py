# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status report over all jobs, and the output of all nodes side by side."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _overview
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse

NODES = ("node1", "node2", "node3")
RANKS: dict[str, Any] = {
    "nnodes": 3,
    "rank0": "node1",
    "nodes": [{"name": name, "rank": rank, "address": name, "colocated": False} for rank, name in enumerate(NODES)],
    "ranks": {name: rank for rank, name in enumerate(NODES)},
    "problems": [],
}


def job(name: str, rank: int, state: str, nnodes: int = 3, **more: Any) -> dict[str, Any]:
    progress = {"step": 5, "steps": 5} if state == "finished" and rank == 0 else {}
    return {
        "name": name,
        "node_rank": rank,
        "state": state,
        "nnodes": nnodes,
        "framework": "swift",
        "command": "pt",
        "logs_here": rank == 0,
        "progress": progress,
        **more,
    }


def report(answers: dict[str, Any], missing: tuple[str, ...] = (), only: str = "") -> dict[str, Any]:
    return _overview.status_report(answers, RANKS, list(missing), "2026-01-01T00:00:00+00:00", only)


def test_nothing_is_there() -> None:
    found = report({name: {"jobs": []} for name in NODES})
    assert found["json"] == {"generated_at": "2026-01-01T00:00:00+00:00", "nodes": 3, "jobs": [], "failures": []}
    assert found["lines"] == ["There is no job on 3 nodes."]


def test_each_job_is_told_apart() -> None:
    found = report(
        {
            name: {"jobs": [job("good", rank, "finished"), job("bad", rank, "failed" if rank == 1 else "stopped")]}
            for rank, name in enumerate(NODES)
        }
    )
    states = {entry["name"]: entry["state"] for entry in found["json"]["jobs"]}
    assert states == {"bad": "failed", "good": "finished"}
    assert found["json"]["failures"] == ["Job bad: node2 (rank 1): failed"]
    assert "table" not in found["json"]["jobs"][0]
    assert any(line.startswith("Job good: finished on 3 nodes") for line in found["lines"])


@pytest.mark.parametrize(("only", "failures"), [("", 1), ("bad", 1), ("good", 0), ("other", 0)])
def test_failures_of_one_job_count_and_all_are_shown(only: str, failures: int) -> None:
    answers = {
        name: {"jobs": [job("good", rank, "finished"), job("bad", rank, "failed" if rank == 1 else "stopped")]}
        for rank, name in enumerate(NODES)
    }
    found = report(answers, only=only)
    assert len(found["json"]["failures"]) == failures
    assert [entry["name"] for entry in found["json"]["jobs"]] == ["bad", "good"]


def test_job_of_fewer_nodes_is_judged_by_those() -> None:
    found = report(
        {
            "node1": {"jobs": [job("small", 0, "finished", nnodes=2)]},
            "node2": {"jobs": [job("small", 1, "finished", nnodes=2)]},
            "node3": {"jobs": []},
        }
    )
    assert found["json"]["failures"] == []
    assert found["json"]["jobs"][0]["state"] == "finished"


def test_job_that_is_missing_on_a_node_is_not_well() -> None:
    found = report(
        {
            "node1": {"jobs": [job("half", 0, "running")]},
            "node2": {"jobs": [job("half", 1, "running")]},
            "node3": {"jobs": [job("half", 2, "absent")]},
        }
    )
    assert found["json"]["failures"][0].startswith("Job half: ")


def test_node_that_does_not_answer_is_a_failure() -> None:
    found = report({"node1": {"jobs": []}, "node2": {"jobs": []}, "node3": {}}, ("node3: ssh does not get through.",))
    assert found["json"]["failures"] == ["node3: ssh does not get through."]


def test_running_job_with_a_silent_node_is_no_success() -> None:
    answers = {
        "node1": {"jobs": [job("half", 0, "running")]},
        "node2": {"jobs": [job("half", 1, "running")]},
        "node3": {},
    }
    found = report(answers)
    assert found["json"]["jobs"][0]["state"] == "running"
    assert found["json"]["failures"] == ["Job half: node3 (rank 2): did not answer: no answer"]


def test_output_is_prefixed_and_kept_apart() -> None:
    outputs = _overview.job_outputs(
        {
            "node1": {"jobs": [job("tiny", 0, "running", output_tail=["one", "two", "three"])]},
            "node2": {"jobs": [job("tiny", 1, "absent")]},
            "node3": {"unreachable": True},
        },
        2,
    )
    assert outputs == [
        {
            "job": "tiny",
            "node": "node1",
            "file": "node1.rank0.log",
            "text": "[node1 rank 0] one\n[node1 rank 0] two\n[node1 rank 0] three\n",
            "last": ["[node1 rank 0] two", "[node1 rank 0] three"],
        }
    ]
    assert _overview.job_outputs({"node1": {"jobs": [job("tiny", 0, "running")]}}, 0)[0]["last"] == []


def test_wrong_kinds_are_mistakes_of_the_playbook() -> None:
    with pytest.raises(Misuse):
        _overview.job_outputs([], 1)
    with pytest.raises(Misuse):
        _overview.status_report({}, {}, [], "")
