# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of one state for a whole job."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse
from ansible_collections.trainyard.swift.plugins.plugin_utils._summary import combine_states, job_summary
from hypothesis import given
from hypothesis import strategies as st

STATES = ["absent", "starting", "running", "finished", "failed", "stopped", "lost", "unknown"]


@pytest.mark.parametrize(
    ("states", "last_step", "state"),
    [
        (["finished", "finished"], True, "finished"),
        (["finished", "finished"], None, "finished"),
        (["finished", "finished"], False, "failed"),
        (["finished", "failed"], True, "failed"),
        (["running", "failed", "lost"], True, "failed"),
        (["running", "lost"], False, "lost"),
        (["running", "running"], False, "running"),
        (["running", "starting"], False, "starting"),
        (["running", "finished"], False, "running"),
        (["running", "stopped"], False, "running"),
        (["finished", "stopped"], True, "stopped"),
        (["stopped", "stopped"], False, "stopped"),
        (["absent", "absent"], False, "absent"),
        (["absent", "running"], False, "failed"),
        (["absent", "finished"], True, "lost"),
        (["absent", "unknown"], False, "unknown"),
        (["stopped", "unknown"], False, "unknown"),
        (["finished", "unknown"], True, "unknown"),
        (["unknown", "unknown"], None, "unknown"),
        (["running", "unknown"], False, "running"),
        (["starting", "unknown"], False, "starting"),
        (["failed", "unknown"], False, "failed"),
        (["lost", "unknown"], False, "lost"),
        (["absent", "running", "unknown"], False, "failed"),
        ([], None, "absent"),
    ],
)
def test_combine_states(states: list[str], last_step: bool | None, state: str) -> None:
    for order in itertools.permutations(states):
        assert combine_states(order, last_step)[0] == state


@given(st.lists(st.sampled_from(STATES), max_size=6), st.sampled_from([True, False, None]))
def test_finished_only_when_all_finished(states: list[str], last_step: bool | None) -> None:
    state, _reason = combine_states(states, last_step)
    assert state in STATES
    assert state != "unknown" or "unknown" in states
    assert (state == "finished") == (bool(states) and set(states) == {"finished"} and last_step is not False)
    if "failed" in states:
        assert state == "failed"


def rank_map(count: int = 2) -> dict[str, Any]:
    names = [f"node{index + 1}" for index in range(count)]
    return {
        "nnodes": count,
        "nodes": [{"name": name, "rank": rank, "address": name, "colocated": False} for rank, name in enumerate(names)],
        "ranks": {name: rank for rank, name in enumerate(names)},
    }


def job(rank: int, state: str = "running", **changes: Any) -> dict[str, Any]:
    entry = {
        "name": "demo",
        "node_rank": rank,
        "nnodes": 2,
        "attempt": 1,
        "state": state,
        "framework": "swift",
        "command": "pt",
        "argv": ["swift", "pt", "--model", "/m"],
        "world_size": 2,
        "expected_world_size": 2,
        "logs_here": rank == 0,
        "progress": {},
        "waiting_for": "",
        "ended_at": None,
        "started_at": "2026-01-02T03:04:05+00:00",
        "error": None,
        "reason": None,
        "returncode": None,
        "signal": None,
        "path": f"/var/lib/trainyard/jobs/demo/rank-{rank}",
        **changes,
    }
    return {"jobs": [entry]}


PROGRESS = {
    "step": 5,
    "steps": 10,
    "loss": 6.157,
    "s_per_it": 0.5,
    "mean_tokens": 100.0,
    "global_batch": 4,
    "checkpoint": "/o/v0/checkpoint-5",
}
DONE = {**PROGRESS, "step": 10, "samples_per_s": 183.8, "checkpoint": "/o/v0/checkpoint-10"}


def summary(*results: Any) -> dict[str, Any]:
    names = [f"node{index + 1}" for index in range(len(results))]
    return job_summary(
        {name: result for name, result in zip(names, results) if result is not None}, rank_map(len(results))
    )


def test_running() -> None:
    found = summary(job(0, progress=PROGRESS), job(1, waiting_for="the next step"))
    assert found["headline"] == "Job demo: running on 2 nodes, step 5 of 10, loss 6.157, 0.5 s/it, 800 tokens/s."
    assert found["table"] == [
        "node   rank  state    step  loss   s/it  detail",
        "node1  0     running  5/10  6.157  0.5",
        "node2  1     running  -     -      -     the next step",
    ]
    assert found["nodes"][0]["step"] == 5
    assert found["nodes"][1]["world_size"] == 2
    expected = {
        "name": "demo",
        "state": "running",
        "logging_node": "node1",
        "step": 5,
        "steps": 10,
        "loss": 6.157,
        "s_per_it": 0.5,
        "samples_per_s": 8.0,
        "tokens_per_s": 800.0,
        "checkpoint": "/o/v0/checkpoint-5",
        "failures": [],
    }
    assert {key: found[key] for key in expected} == expected
    assert json.loads(json.dumps(found)) == found


def test_waiting_for_the_first_step() -> None:
    found = summary(job(0, "starting", waiting_for="the first step"), job(1, "starting", waiting_for="the first step"))
    assert found["headline"] == "Job demo: starting on 2 nodes, waiting for the first step."


def test_finished() -> None:
    found = summary(job(0, "finished", progress=DONE), job(1, "finished"))
    assert found["state"] == "finished"
    assert found["samples_per_s"] == 183.8
    assert found["tokens_per_s"] == 18380.0
    assert found["failures"] == []


def test_megatron_logs_on_the_last_node() -> None:
    found = summary(
        job(0, "finished", framework="megatron", logs_here=None, progress={"checkpoint": "/o/checkpoint-20"}),
        job(1, "finished", framework="megatron", logs_here=None, progress={**DONE, "checkpoint": None}),
    )
    assert (found["logging_node"], found["state"], found["checkpoint"]) == ("node2", "finished", "/o/checkpoint-20")


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"progress": DONE}, "finished"),
        ({"progress": PROGRESS}, "failed"),
        ({"progress": {}}, "failed"),
        ({"progress": {}, "command": "export"}, "finished"),
        ({"progress": PROGRESS, "argv": ["swift", "pt", "--early_stop_interval", "5"]}, "finished"),
    ],
)
def test_finished_needs_the_last_step(changes: dict[str, Any], state: str) -> None:
    found = summary(job(0, "finished", **changes))
    assert found["state"] == state
    assert bool(found["failures"]) == (state == "failed")
    assert found["headline"].startswith(f"Job demo: {state} on 1 node")


def test_the_first_failure_comes_first() -> None:
    found = summary(
        job(
            0,
            "failed",
            ended_at="2026-01-02T03:05:20+00:00",
            error="RuntimeError: Connection closed by peer",
            returncode=1,
        ),
        job(1, "failed", ended_at="2026-01-02T03:05:00+00:00", signal=9, returncode=-9),
        job(2, "lost", reason="its supervisor is gone"),
    )
    assert found["state"] == "failed"
    assert found["failures"] == [
        "node2 (rank 1): failed: signal 9",
        "node1 (rank 0): failed: RuntimeError: Connection closed by peer",
        "node3 (rank 2): lost: its supervisor is gone",
    ]


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"reason": "exit code 1", "error": "ValueError: x"}, "exit code 1: ValueError: x"),
        ({"reason": "it said ValueError: x", "error": "ValueError: x"}, "it said ValueError: x"),
        ({"reason": "ended by signal 9 (SIGKILL)", "signal": 9}, "ended by signal 9 (SIGKILL)"),
        ({"returncode": 3}, "exit code 3"),
        ({"progress": {"error": "ValueError: y"}, "returncode": 1}, "ValueError: y"),
        ({}, ""),
    ],
)
def test_details_of_a_failure(changes: dict[str, Any], detail: str) -> None:
    found = summary(job(0, "failed", **changes))
    assert found["nodes"][0]["detail"] == detail
    assert found["failures"] == [f"node1 (rank 0): failed: {detail}" if detail else "node1 (rank 0): failed"]


@pytest.mark.parametrize(
    ("answer", "state", "detail"),
    [
        (None, "unknown", "no answer"),
        ({"unreachable": True, "msg": "Connection refused\nmore"}, "unknown", "Connection refused"),
        ({"failed": True, "msg": " "}, "unknown", "no answer"),
        ({"jobs": []}, "absent", ""),
        ({"jobs": [{"name": "demo", "state": None}]}, "unknown", "no answer"),
        ("odd", "unknown", "no answer"),
    ],
)
def test_answers_of_a_second_node(answer: Any, state: str, detail: str) -> None:
    found = summary(job(0, progress=PROGRESS), answer)
    assert (found["nodes"][1]["state"], found["nodes"][1]["detail"]) == (state, detail)
    assert found["state"] == ("failed" if state == "absent" else "running")
    if state == "unknown":
        assert found["headline"].startswith("Job demo: running on 1 of 2 nodes, node2 did not answer, step 5 of 10")
        (failure,) = found["failures"]
        assert failure.startswith("node2 (rank 1): did not answer")
    assert len(found["failures"]) == 1


def test_absent_everywhere() -> None:
    found = summary({"jobs": []}, {"jobs": [{"state": "absent", "name": "demo"}]})
    assert (found["state"], found["failures"]) == ("absent", [])
    assert summary({"jobs": []})["headline"] == "The job: absent on 1 node."


@pytest.mark.parametrize(
    ("progress", "argv", "more", "samples", "tokens"),
    [
        ({"s_per_it": 0.5, "global_batch": 4}, [], {}, 8.0, None),
        ({"s_per_it": 0.5, "mean_tokens": 100}, ["--global_batch_size", "4"], {"framework": "megatron"}, 8.0, 800.0),
        ({"s_per_it": 2, "mean_tokens": 100}, [], {"framework": "megatron"}, 8.0, 800.0),
        (
            {"s_per_it": 0.5, "mean_tokens": 100},
            ["--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "2"],
            {},
            8.0,
            800.0,
        ),
        ({"s_per_it": 0.5, "mean_tokens": 100}, [], {}, None, None),
        ({"mean_tokens": 100, "global_batch": 4}, [], {}, None, None),
        ({"s_per_it": 0.5, "global_batch": 4, "mean_tokens": 100}, ["--packing", "true"], {}, 8.0, None),
        ({"s_per_it": 0.5, "global_batch": 4, "mean_tokens": 100}, ["--packing", "false", "--x"], {}, 8.0, 800.0),
    ],
)
def test_speed(
    progress: dict[str, Any], argv: list[str], more: dict[str, Any], samples: float | None, tokens: float | None
) -> None:
    found = summary(job(0, progress=progress, argv=["swift", "pt", *argv], **more), job(1, **more))
    if more.get("framework") == "megatron":
        assert found["logging_node"] == "node1"  # by its own word
    assert (found["samples_per_s"], found["tokens_per_s"]) == (samples, tokens)


def test_nobody_logs() -> None:
    found = summary({"unreachable": True}, job(1, logs_here=False))
    assert (found["logging_node"], found["step"], found["samples_per_s"]) == (None, None, None)


def test_newest_checkpoint_of_all_nodes() -> None:
    found = summary(
        job(0, progress={"checkpoint": "/o/checkpoint-9"}), job(1, progress={"checkpoint": "/o/checkpoint-10"})
    )
    assert found["checkpoint"] == "/o/checkpoint-10"
    assert summary(job(0, progress={"checkpoint": "/o/model-mcore"}))["checkpoint"] == "/o/model-mcore"


@pytest.mark.parametrize(("results", "ranks"), [([], rank_map()), ({}, {}), ({}, None)])
def test_misuse(results: Any, ranks: Any) -> None:
    with pytest.raises(Misuse):
        job_summary(results, ranks)
