# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What swift_job_info says about one node's part of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import _job, _states, _trainer_output
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import JobsDir, Observation, RankDir

#: How much of the output is read: its beginning (sizes, folders) and its end (progress, errors).
_HEAD = 1 << 20
_TAIL = 1 << 18
#: Lines shown of a job that ended badly, even when none were asked for.
_LAST_WORDS = 20


def jobs(jobs_dir: str, name: str | None, lines: int) -> list[dict[str, Any]]:
    """All jobs of this node, or one; a job that is not there is told as absent."""
    # A node has one rank of a job. Another one is left from before the inventory was changed.
    newest = {rank.job: rank for rank in sorted(JobsDir(jobs_dir).ranks(name), key=lambda rank: rank.begun())}
    found = [describe(newest[job], lines) for job in sorted(newest)]
    return found if found or name is None else [absent(name)]


def describe(rank: RankDir, lines: int) -> dict[str, Any]:
    """One rank, from its files, the proof of life, and the trainer's own output."""
    seen = rank.observe_unlocked()
    spec: Mapping[str, Any] = seen.spec.get("spec") or {}
    framework = str(spec.get("framework") or "swift")
    output = _trainer_output.parse(rank.text("output.log", _HEAD, _TAIL), framework)
    nnodes = int(spec.get("nnodes") or 1)
    command = str(spec.get("command") or "")
    # An export has no steps, and that of swift is one process, whatever the environment says.
    logs_here = command != "export" and rank.node_rank == _job.logging_rank(framework, nnodes)
    expected = 1 if (framework, command) == ("swift", "export") else _expected(seen, nnodes)
    bad = seen.state in ("failed", "lost")
    progress = (logs_here, output.step)
    return {
        **_identity(rank, seen),
        "command": command,
        "framework": framework,
        "nnodes": nnodes,
        "world_size": output.world_size,
        "expected_world_size": expected,
        "logs_here": logs_here,
        "progress": output.as_dict(),
        "signal": _signal(seen, output.signal if bad else None),
        "error": output.error if bad else None,
        "output_tail": rank.tail("output.log", max(lines, _LAST_WORDS) if bad else lines),
        "confirmed": _states.confirmed(seen.state, output.world_size, expected, *progress),
        "waiting_for": _states.waiting_for(seen.state, output.world_size, expected, *progress, output.steps),
        "processes": len(rank.processes()),
    }


def _identity(rank: RankDir, seen: Observation) -> dict[str, Any]:
    return {
        "name": rank.job,
        "node_rank": rank.node_rank,
        "attempt": seen.attempt,
        "state": seen.state,
        "reason": seen.reason,
        "returncode": seen.status.get("returncode"),
        "digest": seen.digest,
        "started_at": seen.status.get("started_at"),
        "ended_at": seen.status.get("ended_at"),
        "argv": list(seen.spec.get("argv") or []),
        "path": rank.path,
    }


def _expected(seen: Observation, nnodes: int) -> int | None:
    processes = (seen.spec.get("plan") or {}).get("nproc_per_node")
    return None if processes is None else nnodes * int(processes)


def _signal(seen: Observation, told: int | None) -> int | None:
    """The signal that ended the trainer, or one of its workers as torchrun tells it."""
    own = seen.status.get("signal")
    return told if own is None else int(own)


def absent(name: str) -> dict[str, Any]:
    """A job that was never started on this node."""
    return {
        "name": name,
        "node_rank": None,
        "nnodes": None,
        "attempt": 0,
        "state": "absent",
        "reason": "",
        "returncode": None,
        "signal": None,
        "digest": None,
        "started_at": None,
        "ended_at": None,
        "framework": "",
        "command": "",
        "argv": [],
        "world_size": None,
        "expected_world_size": None,
        "logs_here": False,
        "progress": _trainer_output.TrainerOutput().as_dict(),
        "error": None,
        "output_tail": [],
        "path": "",
        "confirmed": False,
        "waiting_for": "",
        "processes": 0,
    }
