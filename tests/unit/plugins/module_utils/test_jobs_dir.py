# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _jobs_dir, _procfs, _report, _trainer_output
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import JobsDir, Observation, RankDir
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def rank(tmp_path: Path) -> RankDir:
    """One rank that has been created."""
    made = RankDir(str(tmp_path), "demo", 0)
    made.create()
    return made


def test_the_id_lasts(rank: RankDir) -> None:
    marker = rank.marker()
    rank.create()
    assert rank.marker() == marker
    assert marker["TRAINYARD_JOB"] == "demo/rank-0"
    assert len(marker["TRAINYARD_JOB_ID"]) == 32


def test_a_rank_that_was_never_started(tmp_path: Path) -> None:
    rank = RankDir(str(tmp_path), "demo", 0)
    assert rank.marker() == {}
    assert rank.processes() == []
    assert rank.observe() == Observation("absent", "", {}, {})
    assert (rank.observe().attempt, rank.observe().digest) == (0, None)
    rank.remove("secrets.json")
    rank.keep_output(1)


@pytest.mark.parametrize(
    ("text", "lines", "tail"),
    [
        ("", 3, []),
        ("one\n", 3, ["one"]),
        ("one\ntwo\nthree", 2, ["two", "three"]),
        ("one\n\n", 3, ["one"]),
        ("bar 1\rbar 2\rbar 3\nnext\r\n", 3, ["bar 3", "next"]),
        ("one\n", 0, []),
        ("one\n", -1, []),
    ],
)
def test_tail(rank: RankDir, text: str, lines: int, tail: list[str]) -> None:
    Path(rank.file("output.log")).write_bytes(text.encode())
    assert rank.tail("output.log", lines) == tail


def test_a_long_output_is_read_at_both_ends_in_whole_lines(rank: RankDir) -> None:
    lines = [f"line {number:04}" for number in range(1000)]
    Path(rank.file("output.log")).write_text("\n".join(lines), encoding="utf-8")
    text = rank.text("output.log", head=55, tail=55).splitlines()
    assert text == [*lines[:5], *lines[-5:]]
    assert rank.text("nothing", head=5, tail=5) == ""


@given(st.binary(max_size=400), st.integers(0, 50), st.integers(0, 50))
def test_any_output_can_be_read(data: bytes, head: int, tail: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rank = RankDir(folder, "demo", 0)
        os.makedirs(rank.path)
        Path(rank.file("output.log")).write_bytes(data)
        text = rank.text("output.log", head, tail)
        assert len(text) <= len(data.decode("utf-8", errors="replace")) + 2
        rank.tail("output.log", 5)


@pytest.mark.parametrize(
    ("started_in", "reason"),
    [
        ({}, "it was killed (by hand, or by the kernel for want of memory: see dmesg)"),
        ({"boot_id": "another"}, "the node was restarted in the meantime"),
        (
            {"container": "trainyard", "init_pid": 2**22 + 1, "init_start": 5},
            "the container 'trainyard' was stopped or restarted in the meantime",
        ),
        (
            {"container": "trainyard", "init_pid": os.getpid(), "init_start": _procfs.start_time(os.getpid())},
            "it was killed (by hand, or by the kernel for want of memory: see dmesg)",
        ),
    ],
)
def test_why_a_supervisor_is_gone(started_in: dict[str, Any], reason: str) -> None:
    assert _jobs_dir.loss_reason(started_in) == reason


def test_other_things_in_the_folder_are_no_jobs(tmp_path: Path) -> None:
    for name in ("demo/rank-10", "demo/rank-2", "demo/notes", "Not A Job/rank-0", "empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    jobs_dir = JobsDir(str(tmp_path))
    assert [(rank.job, rank.node_rank) for rank in jobs_dir.ranks()] == [("demo", 2), ("demo", 10)]
    assert jobs_dir.ranks("other") == []
    assert jobs_dir.ranks("../demo") == []
    assert JobsDir(str(tmp_path / "nothing")).ranks() == []


def test_a_relative_folder_is_refused() -> None:
    assert "is not an absolute path" in JobsDir("jobs").problems()[0]


def test_absent_and_present_jobs_are_described_alike(rank: RankDir) -> None:
    assert set(_report.absent("demo")) == set(_report.describe(rank, 0))
    assert _report.absent("demo")["progress"] == _trainer_output.TrainerOutput().as_dict()


@pytest.mark.parametrize(
    ("framework", "world_size", "confirmed"),
    [("swift", 1, True), ("swift", 8, False), ("megatron", 8, True), ("megatron", 1, False)],
)
def test_an_export_is_confirmed_without_steps(rank: RankDir, framework: str, world_size: int, confirmed: bool) -> None:
    spec = {"framework": framework, "command": "export", "nnodes": 1}
    rank.write("spec.json", {"attempt": 1, "spec": spec, "plan": {"nproc_per_node": 8}})
    rank.write("status.json", {"attempt": 1, "state": "finished"})
    line = f"[INFO:swift] rank: 0, local_rank: 0, world_size: {world_size}, local_world_size: 1\n"
    Path(rank.file("output.log")).write_text(line, encoding="utf-8")
    job = _report.describe(rank, 0)
    assert (job["command"], job["logs_here"], job["confirmed"]) == ("export", False, confirmed)


def test_a_rank_from_before_the_inventory_was_changed_is_not_told(tmp_path: Path) -> None:
    for number, (node_rank, state) in enumerate([(0, "failed"), (2, "finished"), (1, "stopped")]):
        rank = RankDir(str(tmp_path), "demo", node_rank)
        rank.create()
        rank.write("status.json", {"attempt": 1, "state": state})
        rank.write("spec.json", {"attempt": 1})
        os.utime(rank.file("spec.json"), (number, number))
    RankDir(str(tmp_path), "another", 3).create()
    told = [(job["name"], job["node_rank"], job["state"]) for job in _report.jobs(str(tmp_path), None, 0)]
    assert told == [("another", 3, "lost"), ("demo", 1, "stopped")]
    RankDir(str(tmp_path), "demo", 2).remove("spec.json")
    (job,) = _report.jobs(str(tmp_path), "demo", 0)
    assert job["node_rank"] == 2, "an attempt that is just being written down is the newest"


def test_a_job_that_is_about_to_start_is_not_lost(rank: RankDir, monkeypatch: pytest.MonkeyPatch) -> None:
    rank.write("status.json", {"attempt": 1, "state": "starting"})
    with JobsDir(os.path.dirname(os.path.dirname(rank.path))).locked(1):
        job = _report.describe(rank, 0)
        assert (job["state"], job["reason"]) == ("starting", "")
        assert rank.observe().state == "lost", "who holds the lock knows that nobody else starts it"
        rank.write("status.json", {"attempt": 1, "state": "running"})
        assert _report.describe(rank, 0)["state"] == "lost", "one that has started needs no more time"
    rank.write("status.json", {"attempt": 1, "state": "starting"})
    assert _report.describe(rank, 0)["state"] == "lost"
    # The start ends between the look at the job and the look at the lock.
    held = _procfs.lock_held

    def lock_held(path: str) -> bool:
        if path.endswith(".lock"):
            rank.write("status.json", {"attempt": 1, "state": "finished"})
        return held(path)

    monkeypatch.setattr(_procfs, "lock_held", lock_held)
    assert _report.describe(rank, 0)["state"] == "finished"


def test_the_signal_of_a_worker_counts_when_the_trainer_itself_was_not_killed() -> None:
    assert _report._signal(Observation("failed", "", {"signal": None}, {}), 9) == 9
    assert _report._signal(Observation("failed", "", {"signal": 15}, {}), 9) == 15
