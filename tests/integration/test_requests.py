# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request means in each state, what is refused, and what check mode and diff show."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _control, _jobs_dir, _procfs, _runtime, _supervisor
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from harness import ModuleFailed, Node, run_module, wait_until


def _state(node: Node, state: str) -> None:
    """Bring the job of a test into a state."""
    behaviour: dict[str, Any] = {"finished": {}, "failed": {"exit": 1}}.get(state, {"seconds": 300})
    node.start(**behaviour)
    if state == "stopped":
        node.stop()
    if state == "lost":
        os.kill(node.status()["pid"], signal.SIGKILL)
    node.wait_for_state(state)


def _same(state: str) -> dict[str, Any]:
    return {"finished": {}, "failed": {"exit": 1}}.get(state, {"seconds": 300})


@pytest.mark.parametrize(
    ("state", "options", "action", "attempt"),
    [
        ("running", {}, "attach", 1),
        ("running", {"replace": True}, "attach", 1),
        ("running", {"rerun": True}, "attach", 1),
        ("finished", {}, "none", 1),
        ("finished", {"rerun": True}, "start", 2),
        ("failed", {}, "start", 2),
        ("stopped", {}, "start", 2),
        ("lost", {}, "start", 2),
    ],
)
def test_the_same_specification_again(
    node: Node, state: str, options: dict[str, Any], action: str, attempt: int
) -> None:
    _state(node, state)
    before = node.status()
    planned = node.start(check=True, extra=options, **_same(state))
    assert node.status() == before, "check mode changes nothing"
    done = node.start(extra=options, **_same(state))
    for result in (planned, done):
        assert (result["action"], result["attempt"], result["changed"]) == (action, attempt, action == "start")
        assert result["differences"] == []
        assert result["argv"][1] == "pt", "who attaches is told the same as who starts"
    if action != "start":
        assert node.status() == before


@pytest.mark.parametrize(
    ("state", "options", "refused"),
    [
        ("running", {}, "replace=true"),
        ("running", {"rerun": True}, "replace=true"),
        ("finished", {}, "rerun=true"),
        ("finished", {"replace": True}, "rerun=true"),
        ("running", {"replace": True}, None),
        ("finished", {"rerun": True}, None),
        ("failed", {}, None),
        ("stopped", {}, None),
        ("lost", {}, None),
    ],
)
def test_another_specification(node: Node, state: str, options: dict[str, Any], refused: str | None) -> None:
    _state(node, state)
    before = node.status()
    behaviour = {**_same(state), "words": "other"}
    key = "arguments.words"
    if refused is not None:
        result = node.refusal(extra=options, **behaviour)
        assert refused in result["msg"]
        assert key in result["msg"]
        assert [item["key"] for item in result["differences"]] == [key]
        assert node.status() == before
        return
    processes = node.rank().processes()
    done = node.start(diff=True, extra={"stop_timeout": 3, **options}, **behaviour)
    assert (done["action"], done["attempt"]) == ("start", 2)
    assert done["differences"] == [{"key": key, "before": None, "after": ["other"]}]
    assert done["diff"]["before"] == {"state": state, "attempt": 1, key: None}
    assert done["diff"]["after"] == {"state": "running", "attempt": 2, key: ["other"]}
    assert node.gone(processes)


def test_a_running_job_is_not_stopped_for_one_that_cannot_start(node: Node) -> None:
    node.start(seconds=300)
    before = node.status()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = node.refusal(extra={"replace": True, "master_port": port})
        assert f"port {port} is taken on this node (rank 0) by process {os.getpid()} (" in result["msg"]
        result = node.refusal(extra={"replace": True, "master_addr": "192.0.2.1"})
        assert "The master address '192.0.2.1' does not belong to this node" in result["msg"]
    assert node.info()["state"] == "running"
    assert node.status() == before


def test_check_mode_shows_the_plan_and_writes_nothing(node: Node) -> None:
    data = node.folder / "data"
    data.mkdir()
    for name in ("pt_b.jsonl", "pt_a.jsonl", "other.txt"):
        (data / name).touch()
    pattern = str(data / "pt_*.jsonl")
    planned = node.start(check=True, diff=True, dataset=[pattern])
    paths = [str(data / "pt_a.jsonl"), str(data / "pt_b.jsonl")]
    assert planned["files"] == {pattern: paths}
    index = planned["argv"].index("--dataset")
    assert planned["argv"][index + 1 : index + 3] == paths
    assert planned["environment"]["MASTER_PORT"] == str(node.port)
    assert planned["diff"]["after"]["argv"] == planned["argv"]
    assert (planned["changed"], planned["state"], planned["visible_gpus"]) == (True, "absent", [])
    assert not node.jobs_dir.exists()
    done = node.start(dataset=[pattern])
    assert done["argv"] == planned["argv"]
    assert done["digest"] == planned["digest"]


def test_all_problems_of_a_node_come_at_once(node: Node) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", node.port))
        taken.listen()
        result = node.refusal(dataset="/nowhere/*.jsonl", extra={"bin_dir": "/nowhere", "framework": "megatron"})
    assert len(result["problems"]) == 3
    program, pattern, port = result["problems"]
    assert program.startswith("The program 'megatron' was not found in /nowhere on this node.")
    assert "'/nowhere/*.jsonl' matches no file" in pattern
    assert f"port {node.port} is taken on this node (rank 0) by process {os.getpid()} (" in port
    assert not (node.jobs_dir / "demo").exists()


def test_the_port_does_not_matter_on_other_ranks(node: Node) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", node.port))
        taken.listen()
        assert node.start(check=True, extra={"nnodes": 2, "node_rank": 1})["action"] == "start"


def test_a_port_in_time_wait_is_free(node: Node) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the trainer's store does
        server.bind(("127.0.0.1", node.port))
        server.listen()
        client = socket.create_connection(("127.0.0.1", node.port))
        accepted, _address = server.accept()
        accepted.close()
        client.close()
    assert node.start(check=True)["action"] == "start"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("192.0.2.77", "does not belong to this node, which has rank 0"),
        ("no-such-host.invalid", "cannot be resolved on this node"),
    ],
)
def test_a_master_address_of_somebody_else(node: Node, address: str, words: str) -> None:
    assert words in node.refusal(extra={"master_addr": address})["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "Bad Name"}, "job name 'Bad Name' cannot be used"),
        ({"name": "../demo"}, "job name '../demo' cannot be used"),
        ({"nnodes": 2, "command": "export"}, "'swift export' does not work together across nodes"),
        ({"node_rank": 3}, "node_rank is 3"),
        ({"secrets": {"API_KEY": "abc"}}, "fewer than 4 characters"),
        ({"secrets": {"API_KEY": None}}, "is not text"),
        ({"arguments": {"--model": "x"}}, "starts with dashes"),
        ({"arguments": {"lora-rank": 8, "lora_rank": 8}}, "are one and the same flag"),
        ({"secrets": {"NODE_RANK": "1234"}}, "NODE_RANK is not a secret but a part of the job's layout"),
        ({"secrets": {"PET_NNODES": "1234"}}, "PET_NNODES is not a secret but a part of the job's layout"),
        ({"secrets": {"A=B": "1234"}}, "variable name 'A=B' cannot be used"),
        ({"secrets": {"MY_KEY": "1234"}, "environment": {"MY_KEY": "1"}}, "MY_KEY is in secrets and in environment"),
        ({"environment": {"PET_NNODES": 2}}, "PET_NNODES cannot be given: the number of nodes"),
        ({"environment": {"WORLD_SIZE": 2}}, "WORLD_SIZE cannot be given: it follows from"),
        ({"environment": {"nccl_debug": "INFO"}}, "Write 'NCCL_DEBUG'"),
    ],
)
def test_requests_that_cannot_be_meant(node: Node, options: dict[str, Any], words: str) -> None:
    assert words in node.refusal(extra=options)["msg"]
    assert not node.jobs_dir.exists()


def test_a_flag_of_another_version(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    site = node.folder / "site"
    (site / "ms_swift-4.6.0.dist-info").mkdir(parents=True)
    (site / "ms_swift-4.6.0.dist-info" / "METADATA").write_text("Name: ms-swift\nVersion: 4.6.0\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    assert node.start(check=True)["trainer_version"] == "4.6.0"
    result = node.refusal(extra={"arguments": {"train_type": "full"}})
    assert result["problems"] == ["--train_type is a flag of ms-swift 3, but this is 4.6.0. Write --tuner_type."]


def test_another_job_on_the_same_node(node: Node) -> None:
    node.start(seconds=300)
    result = node.refusal(extra={"name": "other"})
    assert "The job 'demo' is running on this node since 20" in result["msg"]
    result = node.refusal(seconds=300, extra={"nnodes": 2, "node_rank": 1})
    assert "The job 'demo' under another node rank (0) is running" in result["msg"]


def test_another_rank_is_no_way_around_the_end_of_a_job(node: Node) -> None:
    first = {"nnodes": 2, "node_rank": 0}
    second = {"nnodes": 2, "node_rank": 1}
    node.start(extra=first)
    node.wait_for_state("finished")
    result = node.refusal(extra=second)
    assert "has finished with another specification (different: node_rank). Use a new job name" in result["msg"]
    done = node.start(extra={**second, "rerun": True})
    assert (done["action"], done["attempt"]) == ("start", 2)
    wait_until(lambda: node.rank(node_rank=1).observe().state == "finished" and not node.rank(node_rank=1).lock_held())
    # Back again: the newest attempt counts, not the one that this rank remembers.
    assert "has finished with another specification" in node.refusal(extra=first)["msg"]
    assert node.start(extra={**first, "rerun": True})["attempt"] == 3
    node.wait_for_state("finished")
    folder = Path(node.rank().path)
    assert sorted(entry.name for entry in folder.glob("output*")) == ["output.1.log", "output.log"]


def test_a_failed_job_goes_on_under_another_rank(node: Node) -> None:
    node.start(exit=1, extra={"nnodes": 2, "node_rank": 0})
    node.wait_for_state("failed")
    planned = node.start(check=True, exit=1, extra={"nnodes": 2, "node_rank": 1})
    assert (planned["action"], planned["state"], planned["attempt"]) == ("start", "failed", 2)


def test_a_jobs_directory_has_one_name_wherever_it_is_seen_from(node: Node) -> None:
    planned = node.start(check=True)["jobs_dir_id"]
    assert planned.startswith(_procfs.boot_id())
    link = node.folder / "link"
    link.symlink_to(node.folder)
    assert _procfs.folder_id(str(link / "jobs")) == planned
    assert _procfs.folder_id(str(node.folder / "other")) != planned
    done = node.start()["jobs_dir_id"]
    assert done == _procfs.folder_id(str(link / "jobs"))
    assert node.start(check=True)["jobs_dir_id"] == done


def test_a_network_file_system_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_procfs, "network_file_system", lambda path: "nfs4")
    assert "lies on a network file system (nfs4)" in node.refusal()["msg"]


def test_a_program_that_cannot_be_executed(node: Node) -> None:
    (node.bin_dir / "swift").write_text("#!/no/such/python\n", encoding="utf-8")
    with pytest.raises(ModuleFailed) as failure:
        node.start()
    assert "could not be started on this node: the trainer could not be started: No such file" in str(failure.value)
    assert "supervisor.log" in str(failure.value)
    assert node.info()["state"] == "failed"


def test_a_supervisor_that_dies_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "source", lambda name: "raise SystemExit(1)\n")
    with pytest.raises(ModuleFailed, match=r"gave no sign of life within 1 s\. It has written no log"):
        node.start(extra={"start_timeout": 1, "secrets": {"API_KEY": "open-sesame"}})
    assert not (Path(node.rank().path) / "secrets.json").exists()
    job = node.info()
    assert job["state"] == "lost"
    assert "the supervisor ended before the training started" in job["reason"]


_LATE = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("supervisor", {path!r})
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
take_lock = supervisor.take_lock
supervisor.take_lock = lambda path: time.sleep(7) or take_lock(path)
raise SystemExit(supervisor.main(sys.argv[1:]))
"""


def test_a_supervisor_that_comes_too_late_starts_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for the start has been told that it failed, and has taken the secrets back."""
    monkeypatch.setattr(_runtime, "source", lambda name: _LATE.format(path=_supervisor.__file__))
    with pytest.raises(ModuleFailed, match="gave no sign of life"):
        node.start(seconds=300, extra={"start_timeout": 1, "secrets": {"API_KEY": "open-sesame"}})
    assert not (Path(node.rank().path) / "secrets.json").exists()
    wait_until(lambda: "FileNotFoundError" in "".join(node.rank().tail("supervisor.log", 5)))
    wait_until(lambda: not node.rank().lock_held())
    assert node.info()["state"] == "lost"
    assert node.notes() == []


def test_a_launch_that_fails_leaves_no_secrets(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(runtime: object, directory: str, marker: object) -> None:
        assert (Path(directory) / "secrets.json").exists()
        raise SwiftError("no")

    monkeypatch.setattr(_runtime.HostRuntime, "launch", refused)
    with pytest.raises(ModuleFailed, match="no"):
        node.start(extra={"secrets": {"API_KEY": "open-sesame"}})
    assert not (Path(node.rank().path) / "secrets.json").exists()


def test_a_broken_specification_is_told_by_the_supervisor(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_control._environment, "DROPPED", (1,))
    with pytest.raises(ModuleFailed, match=r"Its log .* ends with: .*AttributeError"):
        node.start(extra={"start_timeout": 3})


def test_resume_is_no_other_specification(node: Node) -> None:
    checkpoint = node.folder / "out" / "v0-20261130-101500" / "checkpoint-10"
    checkpoint.mkdir(parents=True)
    for name in ("trainer_state.json", "model.safetensors", "optimizer.pt"):
        (checkpoint / name).touch()
    out = str(node.folder / "out")
    node.start(exit=1, output_dir=out)
    node.wait_for_state("failed")
    planned = node.start(check=True, exit=1, output_dir=out)
    assert planned["checkpoints"] == [{"path": str(checkpoint), "step": 10, "complete": True}]
    resumed = node.start(exit=1, output_dir=out, extra={"resume_from": str(checkpoint)})
    assert resumed["argv"][-2:] == ["--resume_from_checkpoint", str(checkpoint)]
    assert resumed["differences"] == []


def test_a_checkpoint_that_is_not_there(node: Node) -> None:
    assert (
        "The checkpoint '/nowhere/checkpoint-5' is not there"
        in node.refusal({"resume_from": "/nowhere/checkpoint-5"})["msg"]
    )


def test_what_may_not_be_read_is_not_absent(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(_jobs_dir, "_names", refused)
    with pytest.raises(ModuleFailed, match="set become to true"):
        run_module("swift_job_info", {"jobs_dir": str(node.jobs_dir)})
    with pytest.raises(ModuleFailed, match="set become to true"):
        node.stop()


def test_the_node_was_restarted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start(seconds=300)
    os.kill(node.status()["pid"], signal.SIGKILL)
    node.wait_for_state("lost")
    monkeypatch.setattr(_jobs_dir._procfs, "boot_id", lambda: "another")
    assert "the node was restarted in the meantime" in node.info()["reason"]


@pytest.mark.parametrize("name", ["status.json", "spec.json"])
@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_damaged_file_is_no_reason_to_fail(node: Node, name: str, text: str) -> None:
    node.start()
    node.wait_for_state("finished")
    (Path(node.rank().path) / name).write_text(text, encoding="utf-8")
    job = node.info()
    assert job["state"] == ("lost" if name == "status.json" else "finished")
    assert node.stop()["state"] in ("stopped", "finished")
    assert node.start(extra={"rerun": True})["attempt"] >= 1


def test_stopping_what_is_not_there(node: Node) -> None:
    result = node.stop("nothing")
    assert (result["changed"], result["action"], result["state"], result["folder"]) == (False, "none", "absent", "")
    assert not node.jobs_dir.exists()
    with pytest.raises(ModuleFailed, match="cannot be used"):
        node.stop("../nothing")


def test_stop_in_check_mode_stops_nothing(node: Node) -> None:
    node.start(seconds=300)
    result = node.stop(check=True)
    assert (result["changed"], result["action"]) == (True, "stop")
    assert node.info()["state"] == "running"


def test_stop_of_one_specification_leaves_another_alone(node: Node) -> None:
    """What another controller has started under the same name is not ours to take back."""
    digest = node.start(seconds=300)["digest"]
    assert node.stop(digest="0" * 64)["action"] == "none"
    assert node.info()["state"] == "running"
    assert node.stop(digest=digest)["action"] == "stop"
    assert node.info()["state"] == "stopped"


def test_stop_tells_who_has_the_port_now(node: Node) -> None:
    node.start(seconds=300)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", node.port))
        taken.listen()
        result = node.stop()
    assert result["state"] == "stopped"
    assert f"The port {node.port} of the stopped job is in use by process {os.getpid()}" in str(result["warnings"])


def test_waiting_needs_a_name(node: Node) -> None:
    with pytest.raises(ModuleFailed, match="name"):
        run_module("swift_job_info", {"jobs_dir": str(node.jobs_dir), "wait_for": "ended"})
