# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that is waited for goes on, is told about, or is stopped everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _summary, _verdict

RANKS: dict[str, Any] = {
    "nnodes": 2,
    "rank0": "node1",
    "nodes": [
        {"name": "node1", "rank": 0, "address": "10.0.0.1", "colocated": False},
        {"name": "node2", "rank": 1, "address": "10.0.0.2", "colocated": False},
    ],
    "ranks": {"node1": 0, "node2": 1},
    "problems": [],
}


def job(rank: int, state: str, **more: Any) -> dict[str, Any]:
    step = {"step": 5, "steps": 5} if state == "finished" else {"step": 1, "steps": 5}
    return {
        "jobs": [
            {
                "name": "tiny",
                "state": state,
                "node_rank": rank,
                "nnodes": 2,
                "framework": "swift",
                "command": "pt",
                "confirmed": state in ("running", "finished"),
                "logs_here": rank == 0,
                "progress": step if rank == 0 else {},
                **more,
            }
        ]
    }


def judge(one: Any, two: Any, until: str, started: bool = True) -> dict[str, Any]:
    results = {"node1": one, "node2": two}
    return _verdict.verdict(results, _summary.job_summary(results, RANKS), until, started, 60)


GONE = {"unreachable": True, "msg": "ssh: connect to host 10.0.0.2 port 22: No route to host"}
FAILED = {
    "ended_at": "2026-01-01T00:00:02+00:00",
    "error": "ValueError: remaining_argv: ['--foo', '1']",
    "output_tail": ["before", "ValueError: remaining_argv: ['--foo', '1']"],
}


@pytest.mark.parametrize(
    ("one", "two", "until", "started", "good", "stop"),
    [
        (job(0, "running"), job(1, "running"), "confirmed", True, True, False),
        (job(0, "finished"), job(1, "finished"), "confirmed", True, True, False),
        (job(0, "finished"), job(1, "finished"), "ended", True, True, False),
        (job(0, "finished"), job(1, "finished"), "none", False, True, False),
        # One failed: no other may go on, whoever started it.
        (job(0, "running"), job(1, "failed", **FAILED), "confirmed", True, False, True),
        (job(0, "running"), job(1, "failed", **FAILED), "confirmed", False, False, True),
        (job(0, "running"), job(1, "lost"), "ended", True, False, True),
        (job(0, "running"), job(1, "stopped"), "ended", True, False, True),
        (job(0, "failed"), job(1, "failed"), "none", False, False, False),
        # Late: only who started it stops it.
        (job(0, "running"), job(1, "running", confirmed=False), "confirmed", True, False, True),
        (job(0, "running"), job(1, "running", confirmed=False), "confirmed", False, False, False),
        (job(0, "running"), job(1, "running"), "ended", True, False, False),
        # A node that is gone: an accepted job lives on.
        (job(0, "running"), GONE, "confirmed", True, False, True),
        (job(0, "running"), GONE, "confirmed", False, False, False),
        (job(0, "running"), GONE, "ended", True, False, False),
        (job(0, "failed", **FAILED), GONE, "ended", True, False, True),
    ],
)
def test_verdict(one: Any, two: Any, until: str, started: bool, good: bool, stop: bool) -> None:
    found = judge(one, two, until, started)
    assert (found["good"], found["stop"]) == (good, stop)
    assert bool(found["lines"]) is not good


def test_trainers_own_error_and_its_last_lines_are_told() -> None:
    lines = judge(job(0, "failed", ended_at="2026-01-01T00:00:09+00:00"), job(1, "failed", **FAILED), "confirmed")[
        "lines"
    ]
    text = "\n".join(lines)
    assert "[node2 rank 1] the trainer's own error: ValueError: remaining_argv: ['--foo', '1']" in text
    assert "[node2 rank 1] before" in text
    assert "[node1 rank 0]" not in text
    assert "train_resume=true" in text


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (job(0, "running"), job(1, "failed", **FAILED)),
        (job(0, "running"), job(1, "running", confirmed=False)),
        (job(0, "running"), GONE),
    ],
)
def test_nothing_is_claimed_about_a_stop_that_is_still_to_come(one: Any, two: Any) -> None:
    found = judge(one, two, "confirmed")
    assert found["stop"]
    assert not [line for line in found["lines"] if "stopped" in line]


def test_steps_that_are_missing_at_the_end_are_told() -> None:
    short = job(0, "finished", progress={"step": 3, "steps": 5})
    found = judge(short, job(1, "finished"), "ended")
    assert not found["good"]
    assert "before the last step" in found["lines"][0]


def test_late_nodes_say_what_they_wait_for() -> None:
    found = judge(job(0, "running"), job(1, "running", confirmed=False, waiting_for="its first step"), "confirmed")
    assert found["lines"][0] == "node2: not seen training after 60 s, it waits for: its first step."
    assert "train_confirm_timeout" in found["lines"][-1]


@pytest.mark.parametrize(
    ("states", "first"),
    [
        ({"a": ("failed", "2026-01-01T00:00:02+00:00", None), "b": ("failed", "2026-01-01T00:00:01+00:00", None)}, "b"),
        ({"a": ("lost", None, None), "b": ("failed", "2026-01-01T00:00:01+00:00", None)}, "b"),
        ({"a": ("failed", "2026-01-01T00:00:01+00:00", None), "b": ("failed", "2026-01-01T00:00:01+00:00", "E")}, "b"),
        ({"a": ("running", None, None), "b": ("running", None, None)}, None),
    ],
)
def test_first_failure(states: dict[str, tuple[str, str | None, str | None]], first: str | None) -> None:
    views = [
        _verdict.NodeView(name, {"state": state, "ended_at": ended, "error": error, "node_rank": rank})
        for rank, (name, (state, ended, error)) in enumerate(states.items())
    ]
    found = _verdict.first_failure(views)
    assert (found.name if found else None) == first


def test_end_without_having_trained_together_is_no_success() -> None:
    found = judge(job(0, "finished", confirmed=False), job(1, "finished", confirmed=False), "confirmed")
    assert not found["good"]
    assert found["lines"][0].startswith("node1: the trainer has ended without having been seen training")
