# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _control, _probe, _procfs
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._job import JobSpec
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import JobsDir, RankDir


@pytest.mark.parametrize(
    ("framework", "version", "arguments"),
    [
        ("swift", "4.6.0", {"resume_from_checkpoint": "/out/checkpoint-5"}),
        ("swift", "3.8.0", {"resume_from_checkpoint": "/out/checkpoint-5"}),
        ("megatron", "4.6.0", {"mcore_model": "/out/checkpoint-5", "finetune": False}),
        ("megatron", "3.12.1", {"load": "/out/checkpoint-5", "finetune": False}),
        ("megatron", None, {"mcore_model": "/out/checkpoint-5", "finetune": False}),
    ],
)
def test_resume_arguments(framework: str, version: str | None, arguments: dict[str, Any]) -> None:
    assert _control.resume_arguments(framework, "/out/checkpoint-5", version) == arguments
    assert _control.resume_arguments(framework, None, version) == {}


@pytest.mark.parametrize(
    ("gpus", "nproc", "visible", "words"),
    [
        (None, None, [], None),
        (None, 4, [], None),
        (None, 2, [0, 1], None),
        ([1], None, [0, 1], None),
        (None, 3, [0, 1], "3 processes are asked for, but this node shows only 2 GPUs (0, 1)"),
        ([0, 2, 3], None, [0, 1], "GPU 2, 3 is asked for, but this node shows only 2 (0, 1)"),
    ],
)
def test_gpus(gpus: list[int] | None, nproc: int | None, visible: list[int], words: str | None) -> None:
    problems = _control._gpu_problems(JobSpec("demo", gpus=gpus, nproc_per_node=nproc), visible)
    assert (problems == []) if words is None else (words in problems[0])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("ok", None),
        ("missing", "is not there in the container 'trainyard'"),
        ("read-only", "cannot be written by its user (uid 1000)"),
    ],
)
def test_jobs_directory_in_the_container(tmp_path: Path, state: str, words: str | None) -> None:
    seen = {"jobs_dir": state, "jobs_dir_inode": tmp_path.stat().st_ino, "uid": 1000}
    problems = _control._jobs_dir_problems(JobSpec("demo", jobs_dir=str(tmp_path)), seen)
    assert (problems == []) if words is None else (words in problems[0])
    seen["jobs_dir_inode"] = 1
    (problem,) = _control._jobs_dir_problems(JobSpec("demo", jobs_dir=str(tmp_path)), {**seen, "jobs_dir": "ok"})
    assert "is another folder than the node's" in problem
    assert _control._jobs_dir_problems(JobSpec("demo", runtime="host"), seen) == []


def test_secrets() -> None:
    problems = _control.secret_problems({"A": "long-enough", "B": 12345, "C": "abc", "D": True, "E": ["x"]})
    assert [problem.split("'")[1] for problem in problems] == ["C", "D", "E"]


def test_a_port_of_nobody_in_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_procfs, "port_owner", lambda port: None)
    rank = RankDir(str(tmp_path), "demo", 0)
    assert "cannot be seen from here" in _control._port_problems(JobSpec("demo"), "taken", rank)[0]
    assert _control._port_problems(JobSpec("demo"), "free", rank) == []
    assert _control._port_problems(JobSpec("demo"), None, rank) == []


def test_a_port_of_nobody_in_sight_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_procfs, "port_owner", lambda port: None)
    monkeypatch.setattr(_probe, "port_state", lambda address, port: "taken")
    rank = RankDir(str(tmp_path), "demo", 0)
    result = _control._stop_result("demo", [rank], [rank], {rank.path: 29500})
    (warning,) = result["warnings"]
    assert "is in use by a process that cannot be seen from here, which is no part of it" in warning


def test_a_port_held_by_what_is_left_of_the_same_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = RankDir(str(tmp_path), "demo", 0)
    monkeypatch.setattr(_procfs, "port_owner", lambda port: _procfs.Process(4711, "swift"))
    monkeypatch.setattr(rank, "processes", lambda: [4711])
    assert _control._port_problems(JobSpec("demo"), "taken", rank) == []


def test_processes_that_cannot_be_ended_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = RankDir(str(tmp_path), "demo", 0)
    rank.create()
    monkeypatch.setattr(_procfs, "end_processes", lambda find, grace: [4194399])
    with pytest.raises(SwiftError, match=r"could not be ended even by SIGKILL: process 4194399 \(name unknown\)"):
        _control._end_rank(rank, 1, "stopped on request")


def test_a_supervisor_out_of_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = RankDir(str(tmp_path), "demo", 0)
    monkeypatch.setattr(_procfs, "lock_holder", lambda path: None)
    _control._ask_supervisor(rank)
    monkeypatch.setattr(_procfs, "lock_holder", lambda path: 2**22 + 1)
    _control._ask_supervisor(rank)


def test_a_start_that_hangs_holds_up_the_next_one_only_for_a_while(tmp_path: Path) -> None:
    jobs_dir = JobsDir(str(tmp_path))
    with jobs_dir.locked(1), pytest.raises(SwiftError, match=r"did not end within 0\.2 s"), jobs_dir.locked(0.2):
        pass
