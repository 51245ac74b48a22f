# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs playbooks as CI does (ansible-runner) and looks at the nodes by a path of its own (paramiko)."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator

import ansible_runner
import paramiko
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".cache" / "local_cluster"

# Actions that Ansible performs on the controller: they cost the hosts no round trip.
ON_THE_CONTROLLER = frozenset(
    f"ansible.builtin.{name}"
    for name in (
        *("add_host", "assert", "debug", "fail", "group_by", "include_role", "include_tasks", "include_vars", "meta"),
        *("pause", "set_fact", "set_stats", "validate_argument_spec"),
    )
)


@dataclasses.dataclass
class Run:
    """What one ansible-playbook run did, from ansible-runner's JSON events."""

    rc: int
    status: str
    stdout: str
    stats: dict[str, Any]
    events: list[dict[str, Any]]
    artifacts: Path

    def changed(self) -> int:
        return sum(self.stats.get("changed", {}).values())

    def messages(self) -> str:
        """The text a person reads, without line breaks in the middle of sentences and without JSON's escapes."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.stdout).replace('\\"', '"')
        return re.sub(r"\s+", " ", plain)

    def remote(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(event, data) of all tasks that were sent to a host of the cluster."""
        for event in self.events:
            data = event.get("event_data", {})
            if (
                event["event"].startswith("runner_on_")
                and event["event"] != "runner_on_skipped"
                and data.get("resolved_action", data.get("task_action")) not in ON_THE_CONTROLLER
                and data.get("host") != "localhost"
                and not data.get("res", {}).get("_ansible_delegated_vars")
            ):
                yield event["event"].removeprefix("runner_on_"), data

    def reached(self) -> Counter[str]:
        """How many tasks were sent to each host."""
        return Counter(data["host"] for event, data in self.remote() if event != "start")

    def order(self) -> dict[str, list[tuple[str, str]]]:
        """For each task that ran on a host, its starts and ends in the order in which they happened."""
        ran = {data["task_uuid"] for event, data in self.remote() if event != "start"}
        order: dict[str, list[tuple[str, str]]] = {}
        for event, data in self.remote():
            if data["task_uuid"] in ran:
                order.setdefault(f"{data['task']} ({data['task_uuid']})", []).append((event, data["host"]))
        return order


class Node:
    """One host of the local cluster, reached by paramiko: it shares no code with what is tested."""

    def __init__(self, name: str, variables: dict[str, Any]) -> None:
        self.name = name
        self.address = variables["ansible_host"]
        self.user = variables["ansible_user"]
        self.key = str(STATE / "ssh" / "id_ed25519")
        self.container = f"trainyard-{name}"

    def run(self, command: str, check: bool = True) -> str:
        client = paramiko.SSHClient()
        client.load_host_keys(str(STATE / "ssh" / "known_hosts"))
        client.connect(self.address, username=self.user, key_filename=self.key, timeout=20)
        try:
            _stdin, out, err = client.exec_command(f"sudo -n bash -c {shlex.quote(command)}", timeout=120)
            text = out.read().decode(errors="replace")
            errors = err.read().decode(errors="replace")
            status = out.channel.recv_exit_status()
        finally:
            client.close()
        if check and status != 0:
            raise AssertionError(f"{self.name}: {command!r} ended with {status}: {text}{errors}")
        return text

    def trainers(self) -> list[str]:
        """Command lines of all processes on the node that belong to any job of ours, by their environment marker."""
        script = (
            "for p in /proc/[0-9]*; do grep -qz ^TRAINYARD_JOB= $p/environ 2>/dev/null && "
            "{ tr '\\0' ' ' < $p/cmdline; echo; }; done; true"
        )
        return [line for line in self.run(script).splitlines() if line.strip()]


@pytest.fixture(scope="session")
def inventory() -> Path:
    return ROOT / "inventory"


@pytest.fixture(scope="session")
def nodes(inventory: Path) -> dict[str, Node]:
    """The default two nodes. Without a cluster the tests fail, they are not skipped: `make cluster` brings it up."""
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text())
    found = {}

    def walk(group: dict[str, Any], inherited: dict[str, Any]) -> None:
        variables = {**inherited, **(group.get("vars") or {})}
        for name, own in (group.get("hosts") or {}).items():
            found[name] = Node(name, {"ansible_user": "trainer", **variables, **(own or {})})
        for child in (group.get("children") or {}).values():
            walk(child or {}, variables)

    for group in hosts.values():
        walk(group, {})
    for node in found.values():
        node.run("true")
    return found


@pytest.fixture
def play(tmp_path: Path, inventory: Path) -> Callable[..., Run]:
    """Runs a playbook of this checkout through ansible-runner and returns what happened."""
    counter = iter(range(1000))

    def run(playbook: str, *cmdline: str, inventory: Path = inventory, project: Path = ROOT, **variables: Any) -> Run:
        private = tmp_path / f"run{next(counter)}"
        private.mkdir()
        result = ansible_runner.run(
            private_data_dir=str(private),
            project_dir=str(project),
            playbook=playbook,
            inventory=str(inventory),
            extravars=variables or None,
            cmdline=" ".join(cmdline) or None,
            envvars={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"},
            quiet=True,
            timeout=900,
        )
        stdout = Path(result.config.artifact_dir, "stdout").read_text()
        print(stdout)
        return Run(
            rc=result.rc,
            status=result.status,
            stdout=stdout,
            stats=result.stats or {},
            events=list(result.events),
            artifacts=Path(result.config.artifact_dir),
        )

    return run


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Asks again until the answer is true or the promised bound is over; returns the answer."""

    def wait(question: Callable[[], Any], seconds: float, what: str) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            answer = question()
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.5)

    return wait
