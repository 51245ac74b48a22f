# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""train.yml and its companions on two nodes that share this machine, with the real supervisor and no trainer."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _procfs

from playbooks import Run, run, write_inventory

SECRET = "hidden-value-of-a-secret"
LONG = {"STAND_IN_SECONDS": 300}
# Reached as this machine until the plan is accepted, and then no more: a node that goes away between two phases.
GOES_AWAY = {
    "ansible_connection": "{{ 'ssh' if __train_accepted is defined else 'local' }}",
    "ansible_host": "127.0.0.9",
    "ansible_port": 1,
}


class Nodes:
    """Two nodes, each with a jobs directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "bin" / "swift"
        program.parent.mkdir()
        source = Path(__file__).with_name("stand_in.py").read_text(encoding="utf-8")
        program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
        program.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self.variables: dict[str, Any] = {
            "ansible_python_interpreter": sys.executable,
            "swift_colocated": True,
            "train_job": "demo",
            "train_arguments": {"model": "/data/model"},
            "train_runtime": "host",
            "train_bin_dir": str(program.parent),
            "train_master_addr": "127.0.0.1",
            "train_master_port": port,
            "train_confirm_timeout": 60,
            "train_secrets": {"WANDB_API_KEY": SECRET},
            "train_logs_directory": str(folder / "logs"),
            "train_reports_directory": str(folder / "reports"),
        }
        self.inventory = self.describe()

    def describe(self, node2: dict[str, Any] | None = None, **variables: Any) -> Path:
        """Write the inventory anew, with some variables changed."""
        hosts = {
            name: {"ansible_connection": "local", "train_jobs_dir": str(self.folder / name)}
            for name in ("node1", "node2")
        }
        hosts["node2"].update(node2 or {})
        self.inventory = write_inventory(self.folder, hosts, **{**self.variables, **variables})
        return self.inventory

    def play(self, playbook: str, *words: str, **extra: Any) -> Run:
        """Run a playbook on both."""
        return run(f"{playbook}.yml", self.inventory, *words, extra=extra)

    def status(self, rank: int) -> dict[str, Any]:
        """What the supervisor of a node has written."""
        path = self.folder / f"node{rank + 1}" / "demo" / f"rank-{rank}" / "status.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def processes(self) -> list[int]:
        """Every process of the job, found by the mark in its environment."""
        return [
            int(pid)
            for pid in os.listdir("/proc")
            if pid.isdigit() and str(self.folder) in _environ(pid) and _procfs.running(int(pid))
        ]


def _environ(pid: str) -> str:
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
        return data.decode(errors="replace") if b"TRAINYARD_JOB=demo/" in data else ""
    except OSError:
        return ""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes, on which nothing runs when the test has ended."""
    made = Nodes(tmp_path)
    made.variables["train_environment"] = {"STAND_IN_HOME": str(tmp_path)}
    made.describe()
    yield made
    if made.processes():
        made.describe()
        assert made.play("stop").code == 0
        assert made.processes() == []


def environment(nodes: Nodes, **more: Any) -> dict[str, Any]:
    """The trainer's environment, with its mark and more."""
    return {"STAND_IN_HOME": str(nodes.folder), **more}


def test_running_job(nodes: Nodes) -> None:
    nodes.describe(train_environment=environment(nodes, **LONG))
    first = nodes.play("train")
    assert first.code == 0, first.output
    assert "Job demo starts on 2 nodes" in first.output
    assert "Job demo: running on 2 nodes" in first.output
    started = nodes.processes()
    assert started

    again = nodes.play("train")
    assert again.code == 0, again.output
    assert again.recap("changed") == {"node1": 0, "node2": 0}
    assert "Job demo runs already with this specification" in again.output
    assert "Provisioning is left out: demo is running" in again.output
    assert nodes.processes() == started

    other = nodes.play("train", train_arguments_extra={"max_length": 128})
    assert other.code != 0
    assert "running with another specification (different: arguments.max_length)" in other.flat
    assert nodes.processes() == started

    elsewhere = nodes.play("train", train_job="another", train_master_port=29555)
    assert elsewhere.code != 0
    assert "demo" in elsewhere.said, elsewhere.output

    held = nodes.play("teardown")
    assert held.code != 0
    assert "demo: running. Stop it first with playbook stop" in held.flat
    # Container and folder are those of all jobs, whichever one the command names.
    held = nodes.play("teardown", train_job="another", train_teardown_jobs=True)
    assert held.code != 0
    assert "demo: running. Stop it first with playbook stop" in held.flat
    assert nodes.processes() == started

    replaced = nodes.play("train", train_arguments_extra={"max_length": 128}, train_replace=True)
    assert replaced.code == 0, replaced.output
    assert nodes.status(0)["attempt"] == nodes.status(1)["attempt"] == 2
    assert not set(nodes.processes()) & set(started)

    logs = nodes.play("logs", train_logs_lines=2)
    assert logs.code == 0, logs.output
    assert "[node2 rank 1] arguments: pt --model /data/model --max_length 128" in logs.output
    kept = (nodes.folder / "logs" / "demo" / "node1.rank0.log").read_text()
    assert all(line.startswith("[node1 rank 0] ") for line in kept.splitlines())

    misspelt = nodes.play("stop", train_job="dmo")
    assert "Nothing of dmo was running" in misspelt.output
    assert nodes.processes()

    stopped = nodes.play("stop")
    assert stopped.code == 0, stopped.output
    assert "Stopped on all nodes that answered: demo" in stopped.output
    assert nodes.processes() == []
    assert nodes.play("stop").recap("changed") == {"node1": 0, "node2": 0}


def test_finished_job(nodes: Nodes) -> None:
    first = nodes.play("train", train_wait=True)
    assert first.code == 0, first.output
    assert "Job demo: finished on 2 nodes, step 3 of 3" in first.output

    again = nodes.play("train", train_wait=True)
    assert again.code == 0, again.output
    assert again.recap("changed") == {"node1": 0, "node2": 0}
    assert "Job demo has finished with this specification" in again.output

    other = nodes.play("train", train_arguments_extra={"max_length": 128})
    assert other.code != 0
    assert "train_rerun=true" in other.said

    rerun = nodes.play("train", train_rerun=True, train_wait=True)
    assert rerun.code == 0, rerun.output
    assert nodes.status(0)["attempt"] == 2

    status = nodes.play("status")
    assert status.code == 0, status.output
    report = json.loads((nodes.folder / "reports" / "status.json").read_text())
    assert [job["state"] for job in report["jobs"]] == ["finished"]
    assert report["failures"] == []


def test_job_that_finished_on_one_node_alone(nodes: Nodes) -> None:
    """As a whole it has failed: the next attempt is due on both."""
    assert nodes.play("train", train_wait=True).code == 0
    path = nodes.folder / "node2" / "demo" / "rank-1" / "status.json"
    path.write_text(json.dumps({**nodes.status(1), "state": "failed", "returncode": 1}))

    again = nodes.play("train", train_wait=True)
    assert again.code == 0, again.output
    assert nodes.status(0)["attempt"] == nodes.status(1)["attempt"] == 2
    assert "Job demo: finished on 2 nodes" in again.output


def test_failing_trainer_is_told_in_its_own_words(nodes: Nodes) -> None:
    own = {"train_environment": environment(nodes, STAND_IN_EXIT=1)}
    nodes.describe(node2=own, train_environment=environment(nodes, **LONG))
    failed = nodes.play("train")
    assert failed.code != 0
    assert "[node2 rank 1] the trainer's own error: ValueError: remaining_argv: ['--unheard_of', '1']" in failed.said
    assert "[node2 rank 1] Traceback (most recent call last):" in failed.said
    # The other node was well, and may not go on alone.
    assert "The job was stopped on all nodes. Nothing of it remains there." in failed.flat
    assert nodes.processes() == []

    status = nodes.play("status")
    assert status.code != 0
    assert "Job demo: node2 (rank 1): failed" in status.said
    report = json.loads((nodes.folder / "reports" / "status.json").read_text())
    assert [node["state"] for node in report["jobs"][0]["nodes"]] == ["stopped", "failed"]

    nodes.describe(train_environment=environment(nodes))
    following = nodes.play("train", train_wait=True, train_resume=True)
    assert following.code == 0, following.output
    assert "from the beginning: no checkpoint is complete on all nodes" in following.flat
    assert nodes.status(0)["attempt"] == 2


def test_node_that_does_not_start_takes_the_others_back(nodes: Nodes) -> None:
    bin_dir = nodes.variables["train_bin_dir"]
    lost = {"train_bin_dir": f"{{{{ '/nowhere' if __train_accepted is defined else '{bin_dir}' }}}}"}
    nodes.describe(node2=lost, train_environment=environment(nodes, **LONG))
    failed = nodes.play("train")
    assert failed.code != 0
    assert "node2: " in failed.flat
    assert "/nowhere" in failed.said
    assert "The job was stopped again on all other nodes" in failed.flat
    assert nodes.processes() == []


def test_node_that_cannot_be_taken_back_is_named(nodes: Nodes) -> None:
    bin_dir = nodes.variables["train_bin_dir"]
    lost = {"train_bin_dir": f"{{{{ '/nowhere' if __train_accepted is defined else '{bin_dir}' }}}}"}
    broken = "__train_started is defined and inventory_hostname == 'node1'"
    nodes.describe(
        node2=lost,
        train_environment=environment(nodes, **LONG),
        ansible_python_interpreter=f"{{{{ '/nowhere/python3' if {broken} else '{sys.executable}' }}}}",
    )
    failed = nodes.play("train")
    assert failed.code != 0
    assert "The job could not be stopped again everywhere, end it with playbook stop: node1: " in failed.flat
    assert "was stopped again on all other nodes" not in failed.flat
    nodes.describe()
    assert nodes.play("stop").code == 0
    assert nodes.processes() == []


def test_node_on_which_a_failed_job_cannot_be_stopped_is_named(nodes: Nodes) -> None:
    own = {"train_environment": environment(nodes, STAND_IN_EXIT=1)}
    broken = "__train_verdict is defined and inventory_hostname == 'node1'"
    nodes.describe(
        node2=own,
        train_environment=environment(nodes, **LONG),
        ansible_python_interpreter=f"{{{{ '/nowhere/python3' if {broken} else '{sys.executable}' }}}}",
    )
    failed = nodes.play("train")
    assert failed.code != 0
    assert "[node2 rank 1] the trainer's own error: ValueError" in failed.said
    assert "The job could not be stopped everywhere, end it with playbook stop: node1: " in failed.flat
    assert "was stopped on all" not in failed.flat
    assert nodes.processes()


def test_nodes_with_one_jobs_directory_are_refused(nodes: Nodes) -> None:
    nodes.describe(node2={"train_jobs_dir": str(nodes.folder / "node1")})
    failed = nodes.play("train")
    assert failed.code != 0
    assert "node1 and node2 share one machine and one jobs directory there" in failed.flat
    assert "Give each a train_jobs_dir of its own" in failed.flat
    assert nodes.processes() == []


def test_node_that_goes_away_before_the_start_takes_the_others_back(nodes: Nodes) -> None:
    nodes.describe(node2=GOES_AWAY, train_environment=environment(nodes, **LONG))
    failed = nodes.play("train")
    assert failed.code != 0
    assert "node2: ssh does not get through" in failed.flat
    assert "What node2 may have started before it went away" in failed.flat
    assert nodes.processes() == []


def test_nothing_starts_when_a_node_is_unreachable(nodes: Nodes) -> None:
    nodes.describe(node2={"ansible_connection": "ssh", "ansible_host": "127.0.0.9", "ansible_port": 1})
    failed = nodes.play("train")
    assert failed.code != 0
    assert "node2: ssh does not get through" in failed.said
    assert "Nothing was started on any node." in failed.said
    assert not (nodes.folder / "node1").exists()

    stopped = nodes.play("stop")
    assert stopped.code != 0
    assert "node2: ssh does not get through" in stopped.said


def test_node_without_python_is_named(nodes: Nodes) -> None:
    nodes.describe(node2={"ansible_python_interpreter": "/nowhere/python3"})
    failed = nodes.play("train")
    assert failed.code != 0
    assert "node2: Python was not found on it" in failed.said
    assert "ansible_python_interpreter" in failed.said


def test_master_that_is_not_rank_0(nodes: Nodes) -> None:
    nodes.describe(train_master_addr="192.0.2.1")
    failed = nodes.play("train")
    assert failed.code != 0
    assert "192.0.2.1" in failed.said
    assert "node1" in failed.said


def test_glob_that_matches_nothing_and_taken_port_at_once(nodes: Nodes) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", nodes.variables["train_master_port"]))
        taken.listen()
        failed = nodes.play("train", train_arguments_extra={"dataset": str(nodes.folder / "nothing_*.jsonl")})
    assert failed.code != 0
    assert "nothing_*.jsonl" in failed.said
    assert str(nodes.variables["train_master_port"]) in failed.said
    assert str(os.getpid()) in failed.said


def test_world_that_never_steps_is_not_confirmed(nodes: Nodes) -> None:
    nodes.describe(train_environment=environment(nodes, STAND_IN_DELAY=300))
    failed = nodes.play("train", train_confirm_timeout=5)
    assert failed.code != 0
    assert "node1: not seen training after 5 s, it waits for: " in failed.said
    assert nodes.processes() == []


def test_check_mode_shows_the_command_and_starts_nothing(nodes: Nodes) -> None:
    checked = nodes.play("train", "--check", "--diff")
    assert checked.code == 0, checked.output
    # A long line is folded.
    assert "swift pt --model /data/model" in checked.flat
    assert nodes.processes() == []
    assert not list(nodes.folder.glob("node*/demo"))
    assert "CUDA_VISIBLE_DEVICES=" not in checked.flat
    nodes.describe(swift_gpus=0)
    hidden = nodes.play("train", "--check")
    assert "CUDA_VISIBLE_DEVICES= " in hidden.flat, "no GPU is another wish than any GPU"
    # What these write lies on the controller alone, and they change no node.
    assert nodes.play("status", "--check").code == 0
    assert (nodes.folder / "reports" / "status.json").exists()


def test_secret_is_nowhere(nodes: Nodes) -> None:
    nodes.describe(train_environment=environment(nodes, **LONG))
    outputs = [nodes.play("train", "-vvv", "--check", "--diff"), nodes.play("train", "-vvv", "--diff")]
    assert outputs[-1].code == 0, outputs[-1].output
    holders = [
        path
        for path in nodes.folder.rglob("*")
        if path.is_file() and path != nodes.inventory and SECRET in path.read_text(errors="replace")
    ]
    assert {path.name for path in holders} == {"secrets.json"}
    assert {oct(path.stat().st_mode & 0o777) for path in holders} == {"0o600"}
    commands = [
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.parent.name != str(os.getpid()) and path.exists()
    ]
    assert not [command for command in commands if SECRET.encode() in command]
    outputs += [nodes.play(name, "-vvv") for name in ("status", "logs", "stop")]
    for result in outputs:
        assert SECRET not in result.output
