# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtime host on a machine with systemd: a node of the local cluster's image, reached by the docker connection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from harness import wait_until

pytestmark = pytest.mark.docker

_ROOT = Path(__file__).parents[2]
_IMAGE = "trainyard-node:bookworm"
_BIN = "/opt/stand-in"


class Machine:
    """A container that is a machine with systemd."""

    def __init__(self, folder: Path) -> None:
        if os.environ.get("TRAINYARD_NO_DOCKER") == "1":
            pytest.skip("TRAINYARD_NO_DOCKER=1: systemd is NOT tested here")
        self.client = docker.from_env()
        self.name = f"trainyard-test-{uuid.uuid4().hex[:8]}"
        source = Path(__file__).with_name("fake_trainer.py").read_text(encoding="utf-8")
        program = folder / "swift"
        program.write_text(f"#!/usr/bin/env python3\n{source}", encoding="utf-8")
        program.chmod(0o755)
        self.container: Any = self.client.containers.run(
            _IMAGE,
            name=self.name,
            detach=True,
            privileged=True,
            cgroupns="host",
            tmpfs={"/run": "", "/run/lock": "", "/tmp": ""},
            volumes={
                str(folder): {"bind": _BIN, "mode": "ro"},
                "/sys/fs/cgroup": {"bind": "/sys/fs/cgroup", "mode": "rw"},
            },
        )
        wait_until(lambda: self.run("systemctl", "is-system-running") in ("running", "degraded"), 60)

    def run(self, *argv: str) -> str:
        """Output of a command on it."""
        return str(self.container.exec_run(list(argv)).output.decode().strip())

    def ansible(self, module: str, **options: Any) -> dict[str, Any]:
        """Run one of our modules there."""
        program = shutil.which("ansible", path=os.path.dirname(sys.executable))
        assert program is not None
        argv = [
            program,
            "-i",
            f"{self.name},",
            "all",
            "-c",
            "community.docker.docker",
            "-m",
            f"trainyard.swift.{module}",
        ]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "ANSIBLE_COLLECTIONS_PATH": str(_ROOT / "collections"),
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        done = subprocess.run(
            [*argv, "-a", json.dumps(options)],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "=> {" in done.stdout, done.stdout + done.stderr
        return dict(json.loads("{" + done.stdout.partition("=> {")[2]))

    def start(self) -> dict[str, Any]:
        """Start a job that lasts."""
        arguments = {"report": "/tmp/report.jsonl", "seconds": 300, "children": 2, "depth": 2}
        return self.ansible("swift_job", name="demo", runtime="host", bin_dir=_BIN, arguments=arguments)

    def job(self) -> dict[str, Any]:
        """What is told of it."""
        return dict(self.ansible("swift_job_info", name="demo")["jobs"][0])

    def unit(self) -> str:
        """Name of the job's unit, or nothing."""
        words = self.run("systemctl", "list-units", "--no-legend", "--plain", "trainyard-demo-*").split()
        return words[0] if words else ""

    def pids(self) -> str:
        """Processes of the job."""
        return self.run("sh", "-c", "grep -lz ^TRAINYARD_JOB= /proc/[0-9]*/environ 2>/dev/null; true")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine that is gone after the test."""
    made = Machine(tmp_path)
    yield made
    made.container.remove(force=True)


def test_a_job_is_a_unit_of_systemd(machine: Machine) -> None:
    assert machine.start()["action"] == "start"
    unit = machine.unit()
    assert unit.startswith("trainyard-demo-rank-0-")
    pid = machine.job()["processes"]
    assert pid == 7
    group = machine.run("systemctl", "show", "-P", "ControlGroup", unit)
    assert unit in group
    assert machine.start()["action"] == "attach"

    machine.run("systemctl", "stop", unit)
    assert (machine.job()["state"], machine.job()["processes"]) == ("stopped", 0)
    assert machine.unit() == ""

    assert machine.start()["attempt"] == 2
    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", machine.unit())
    wait_until(lambda: machine.pids() == "", 5)
    assert machine.job()["state"] == "lost"
    assert machine.ansible("swift_job", name="demo", state="stopped")["state"] == "stopped"
