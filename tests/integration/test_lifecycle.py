# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, end, stop and violent death, with the real supervisor on this machine."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import threading
import time
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _procfs, _runtime, _supervisor
from harness import ModuleFailed, Node, run_module, wait_until


def test_a_job_runs_to_its_end(node: Node) -> None:
    result = node.start(steps=3)
    assert (result["changed"], result["action"], result["attempt"]) == (True, "start", 1)
    assert result["argv"][:2] == [str(node.bin_dir / "swift"), "pt"]
    node.wait_for_state("finished")
    job = node.info(lines=3)
    assert (job["state"], job["returncode"], job["signal"]) == ("finished", 0, None)
    assert (job["world_size"], job["expected_world_size"], job["confirmed"]) == (1, 1, True)
    assert (job["progress"]["step"], job["progress"]["steps"]) == (3, 3)
    assert len(job["output_tail"]) == 3
    assert job["started_at"].endswith("+00:00")
    assert job["ended_at"] >= job["started_at"]
    assert job["processes"] == 0


def test_the_trainer_gets_a_clean_surrounding(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "PET_NNODES", "https_proxy", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "inherited")
    node.start(seconds=300, extra={"environment": {"NCCL_DEBUG": "INFO"}})
    facts = node.facts()
    environment = facts["environment"]
    assert {"RANK", "WORLD_SIZE", "PET_NNODES", "https_proxy"}.isdisjoint(environment)
    assert environment["LD_LIBRARY_PATH"] == "inherited"
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["NNODES"] == "1"
    assert environment["TRAINYARD_JOB"] == "demo/rank-0"
    assert environment["PATH"].startswith(f"{node.bin_dir}:")
    soft, hard = facts["open_files"]
    assert soft == (_supervisor.OPEN_FILES if hard < 0 else min(hard, _supervisor.OPEN_FILES))
    assert facts["session"] == facts["pid"]
    assert facts["mask"] == []


def test_files_are_for_their_owner_alone(node: Node) -> None:
    node.start(seconds=300, extra={"secrets": {"API_KEY": "open-sesame"}})
    node.facts()
    folder = node.jobs_dir / "demo" / "rank-0"
    assert stat.S_IMODE(node.jobs_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {entry.name: stat.S_IMODE(entry.stat().st_mode) & 0o077 for entry in folder.iterdir()} == {
        entry.name: 0 for entry in folder.iterdir()
    }


def test_a_secret_is_only_in_its_file_and_in_the_trainers_environment(node: Node) -> None:
    secret = "open-sesame-4711"
    options = {"secrets": {"API_KEY": secret}}
    planned = node.start(check=True, diff=True, seconds=300, extra=options)
    started = node.start(diff=True, seconds=300, extra=options)
    assert node.facts()["environment"]["API_KEY"] == secret
    assert secret not in str(planned) + str(started) + str(node.info(lines=100))
    assert started["secret_names"] == ["API_KEY"]
    folder = node.jobs_dir / "demo" / "rank-0"
    holding = {entry.name for entry in folder.iterdir() if secret in entry.read_text(encoding="utf-8")}
    assert holding == {"secrets.json"}
    for pid in node.rank().processes():
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as stream:
            assert secret not in stream.read()
    other = node.start(seconds=300, extra={"secrets": {"API_KEY": "another-value-of-it"}})
    assert other["action"] == "attach", "the value is no part of the specification"
    node.stop()
    assert not (folder / "secrets.json").exists()


@pytest.mark.parametrize(
    ("behaviour", "returncode", "number", "reason"),
    [
        ({"exit": 3}, 3, None, "the trainer ended with exit code 3"),
        ({"exit": 247}, 247, None, "the trainer ended with exit code 247"),
        ({"kill_self": 9}, None, 9, "the trainer was killed by signal 9 (SIGKILL)"),
        ({"kill_self": 11}, None, 11, "the trainer was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_how_the_trainer_ended_is_told_exactly(
    node: Node, behaviour: dict[str, Any], returncode: int | None, number: int | None, reason: str
) -> None:
    node.start(**behaviour)
    node.wait_for_state("failed")
    job = node.info()
    assert (job["returncode"], job["signal"], job["reason"]) == (returncode, number, reason)
    assert job["output_tail"], "the last words of a failed job come without being asked for"


def test_the_trainers_own_error_is_shown(node: Node) -> None:
    node.start(exit=1, words="ValueError: remaining_argv: ['--foo', '1']")
    node.wait_for_state("failed")
    assert node.info()["error"] == "ValueError: remaining_argv: ['--foo', '1']"


def test_stop_ends_the_whole_tree(node: Node) -> None:
    node.start(seconds=300, children=2, depth=3)
    pids = node.trainer_pids()
    wait_until(lambda: len(node.notes()) == 7)
    pids = node.trainer_pids()
    before = node.rank().processes()
    assert set(pids) <= set(before)
    result = node.stop()
    assert (result["changed"], result["action"], result["state"]) == (True, "stop", "stopped")
    assert node.gone(before)
    status = node.status()
    assert (status["state"], status["signal"]) == ("stopped", signal.SIGTERM)
    again = node.stop()
    assert (again["changed"], again["action"]) == (False, "none")


def test_stop_kills_what_does_not_listen(node: Node) -> None:
    node.start(seconds=300, children=2, depth=2, ignore_term=True)
    node.facts()
    pids = node.rank().processes()
    took = wait_until(lambda: node.stop(stop_timeout=1)["changed"])
    assert 0.9 < took < 6
    assert node.gone(pids)
    assert node.status()["signal"] == signal.SIGKILL


def test_a_second_stop_may_be_in_more_of_a_hurry(node: Node) -> None:
    node.start(seconds=300, children=2, ignore_term=True)
    node.facts()
    pids = node.rank().processes()
    patient = os.fork()
    if patient == 0:
        node.stop(stop_timeout=120)
        os._exit(0)
    wait_until(lambda: (node.rank().read("stop.json") or {}).get("grace") == 120)
    started = time.monotonic()
    assert node.stop(digest="0" * 64, check=True)["action"] == "none"
    assert node.stop(stop_timeout=1)["state"] == "stopped"
    assert time.monotonic() - started < 15
    assert os.waitpid(patient, 0)[1] == 0
    assert node.gone(pids)
    assert node.status()["signal"] == signal.SIGKILL


_FULL_DISK = """
import errno, importlib.util, sys
spec = importlib.util.spec_from_file_location("supervisor", {path!r})
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
supervisor.WRITE_PAUSE = 0.2
write, left = supervisor._write_status, {{"running": 3, "finished": 3}}
def limited(directory, status):
    state = status["state"]
    left[state] = left.get(state, 0) - 1
    if left[state] >= 0:
        raise OSError(errno.ENOSPC, "No space left on device")
    write(directory, status)
supervisor._write_status = limited
raise SystemExit(supervisor.main(sys.argv[1:]))
"""


def test_a_full_disk_is_no_end_of_a_healthy_trainer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "source", lambda name: _FULL_DISK.format(path=_supervisor.__file__))
    assert node.start(seconds=2)["state"] == "running"
    node.wait_for_state("finished")
    log = (node.jobs_dir / "demo" / "rank-0" / "supervisor.log").read_text(encoding="utf-8")
    for state in ("running", "finished"):
        assert log.count(f"the status {state!r} could not be written: [Errno 28] No space left on device") == 3


def test_stop_ends_processes_that_are_suspended(node: Node) -> None:
    node.start(seconds=300, children=2, stop_children=True)
    node.facts()
    pids = node.rank().processes()
    node.stop()
    assert node.gone(pids)


def test_what_the_trainer_leaves_behind_is_ended_before_the_job_counts_as_ended(node: Node) -> None:
    node.start(children=2, depth=2, exit=5)
    node.wait_for_state("failed")
    assert node.gone(node.trainer_pids())
    assert node.status()["returncode"] == 5


def test_kill_of_the_trainer(node: Node) -> None:
    node.start(seconds=300, children=2, depth=2)
    pids = node.trainer_pids()
    os.kill(node.facts()["pid"], signal.SIGKILL)
    node.wait_for_state("failed")
    assert node.info()["signal"] == signal.SIGKILL
    assert node.gone(pids)


def test_kill_of_the_guard(node: Node) -> None:
    node.start(seconds=300, children=2, depth=2)
    everything = node.rank().processes()
    pids = node.trainer_pids()
    guard = next(pid for pid in node.rank().processes() if _parent(node.facts()["pid"]) == pid)
    os.kill(guard, signal.SIGKILL)
    took = node.wait_for_state("failed")
    assert took < 5
    assert "the guard process was killed by signal 9 (SIGKILL)" in node.info()["reason"]
    wait_until(lambda: node.gone(everything), 2)
    assert node.gone(pids + everything)


@pytest.mark.parametrize("ignore_term", [False, True])
def test_kill_of_the_supervisor(node: Node, ignore_term: bool) -> None:
    node.start(seconds=300, children=2, depth=2, ignore_term=ignore_term)
    node.facts()
    everything = node.rank().processes()
    os.kill(node.status()["pid"], signal.SIGKILL)
    node.wait_for_state("lost")
    assert "it was killed" in node.info()["reason"]
    assert wait_until(lambda: node.gone(everything)) < 5
    result = node.stop()
    assert (result["changed"], result["state"]) == (True, "stopped")
    assert node.stop()["changed"] is False


def test_kill_of_supervisor_and_guard_leaves_orphans_that_stop_finds(node: Node) -> None:
    node.start(seconds=300, children=2, depth=2)
    pids = node.trainer_pids()
    guard = _parent(node.facts()["pid"])
    for pid in (node.status()["pid"], guard):
        os.kill(pid, signal.SIGSTOP)
    for pid in (guard, node.status()["pid"]):
        os.kill(pid, signal.SIGKILL)
    node.wait_for_state("lost")
    assert all(_procfs.running(pid) for pid in pids)
    with pytest.raises(ModuleFailed, match=r"The job 'demo' is lost, but \d+ of its processes still run"):
        node.start(extra={"name": "other"})
    assert node.stop(check=True)["changed"] is True
    assert node.stop()["changed"] is True
    assert node.gone(pids)


def test_a_lost_job_is_cleared_away_before_its_next_attempt(node: Node) -> None:
    node.start(seconds=300, children=1)
    pids = node.trainer_pids()
    guard = _parent(node.facts()["pid"])
    for pid in (node.status()["pid"], guard):
        os.kill(pid, signal.SIGSTOP)
    for pid in (guard, node.status()["pid"]):
        os.kill(pid, signal.SIGKILL)
    node.wait_for_state("lost")
    result = node.start(seconds=300, children=1, extra={"stop_timeout": 2})
    assert (result["attempt"], result["state"]) == (2, "running")
    assert node.gone(pids)


def test_what_is_left_of_a_job_that_has_ended_is_ended_before_its_next_attempt(node: Node) -> None:
    node.start(exit=1)
    node.wait_for_state("failed")
    with subprocess.Popen(["sleep", "300"], env={**os.environ, **node.rank().marker()}) as left:
        assert node.start(exit=1, extra={"stop_timeout": 2})["attempt"] == 2
        assert left.wait(1) == -signal.SIGTERM


def test_two_starts_at_once(node: Node) -> None:
    # Modules end their process, so each has to be one of its own.
    pids = []
    for number in range(2):
        pid = os.fork()
        if pid == 0:
            action = node.start(seconds=300)["action"]
            (node.folder / f"action-{number}").write_text(action, encoding="utf-8")
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    actions = sorted((node.folder / f"action-{number}").read_text(encoding="utf-8") for number in range(2))
    assert actions == ["attach", "start"]
    node.facts()
    assert len([note for note in node.notes() if "argv" in note]) == 1


def test_output_of_each_attempt_is_kept(node: Node) -> None:
    node.start(words="first")
    node.wait_for_state("finished")
    node.start(words="first", extra={"rerun": True})
    node.wait_for_state("finished")
    node.start(words="first", extra={"rerun": True})
    node.wait_for_state("finished")
    folder = node.jobs_dir / "demo" / "rank-0"
    assert sorted(entry.name for entry in folder.glob("output*")) == ["output.1.log", "output.2.log", "output.log"]
    assert node.info()["attempt"] == 3


def test_asking_does_not_disturb(node: Node) -> None:
    node.start(seconds=300)
    status = node.status()
    threads = [
        threading.Thread(target=lambda: [node.rank().lock_held() for _number in range(50)]) for _number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.status() == status
    assert node.info()["state"] == "running"


def test_all_jobs_of_a_node(node: Node) -> None:
    assert run_module("swift_job_info", {"jobs_dir": str(node.jobs_dir)})["jobs"] == []
    node.start()
    node.wait_for_state("finished")
    node.start(extra={"name": "another"})
    jobs = run_module("swift_job_info", {"jobs_dir": str(node.jobs_dir)})["jobs"]
    assert [job["name"] for job in jobs] == ["another", "demo"]
    assert node.info("nothing")["state"] == "absent"


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
        return int(stream.read().rpartition(")")[2].split()[1])
