# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on this machine: its own jobs directory, a program that stands in for the trainer, the real supervisor."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainyard.swift.plugins.module_utils import _procfs
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import RankDir

_MODULES = "ansible_collections.trainyard.swift.plugins.modules"
COVERAGE = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


class ModuleFailed(Exception):
    """A module has ended with fail_json."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


def run_module(name: str, options: dict[str, Any], check: bool = False, diff: bool = False) -> dict[str, Any]:
    """Run one of our modules in this process, as Ansible would on a node."""
    module = importlib.import_module(f"{_MODULES}.{name}")
    out, err = io.StringIO(), io.StringIO()
    arguments = {**options, "_ansible_check_mode": check, "_ansible_diff": diff, "_ansible_remote_tmp": "/tmp"}
    with (
        patch_module_args(arguments),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit),
    ):
        module.main()
    result: dict[str, Any] = json.loads(out.getvalue().strip().splitlines()[-1])
    # Where the controller's code is loaded as well, warnings are shown at once in place of being returned.
    result.setdefault("warnings", err.getvalue().splitlines())
    if result.get("failed"):
        raise ModuleFailed(result)
    return result


def wait_until(condition: Callable[[], Any], seconds: float = 15.0) -> float:
    """Wait for something to become true. Returns how long that took."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        if waited > seconds:
            pytest.fail(f"did not come true within {seconds} s")
        time.sleep(0.05)
    return time.monotonic() - started


class Node:
    """What a test does with one node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs_dir = folder / "jobs"
        self.report = folder / "report.jsonl"
        self.bin_dir = folder / "bin"
        self.bin_dir.mkdir(parents=True)
        source = Path(__file__).with_name("fake_trainer.py").read_text(encoding="utf-8")
        for name in ("swift", "megatron"):
            program = self.bin_dir / name
            program.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
            program.chmod(0o755)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.job_options: dict[str, Any] = {"runtime": "host", "bin_dir": str(self.bin_dir), "master_port": self.port}

    def options(self, behaviour: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Options of swift_job."""
        arguments = {"report": str(self.report), **behaviour}
        return {"name": "demo", "jobs_dir": str(self.jobs_dir), "arguments": arguments, **self.job_options, **more}

    def start(
        self, check: bool = False, diff: bool = False, extra: dict[str, Any] | None = None, **behaviour: Any
    ) -> dict[str, Any]:
        """Start a job whose trainer behaves as told."""
        return run_module("swift_job", self.options(behaviour, **(extra or {})), check, diff)

    def refusal(self, extra: dict[str, Any] | None = None, **behaviour: Any) -> dict[str, Any]:
        """The result of a start that is refused, in check mode and for real alike."""
        results = []
        for check in (True, False):
            with pytest.raises(ModuleFailed) as failure:
                self.start(check=check, extra=extra, **behaviour)
            results.append(failure.value.result)
        assert results[0]["problems"] == results[1]["problems"]
        return results[1]

    def stop(self, name: str = "demo", check: bool = False, **more: Any) -> dict[str, Any]:
        """Stop a job."""
        options = {"name": name, "state": "stopped", "jobs_dir": str(self.jobs_dir), "stop_timeout": 5, **more}
        return run_module("swift_job", options, check)

    def info(self, name: str | None = "demo", **more: Any) -> dict[str, Any]:
        """What swift_job_info tells of one job."""
        jobs = run_module("swift_job_info", {"name": name, "jobs_dir": str(self.jobs_dir), **more})["jobs"]
        return dict(jobs[0])

    def rank(self, name: str = "demo", node_rank: int = 0) -> RankDir:
        """The job's folder."""
        return RankDir(str(self.jobs_dir), name, node_rank)

    def status(self) -> dict[str, Any]:
        """status.json."""
        return self.rank().read("status.json") or {}

    def wait_for_state(self, *states: str, seconds: float = 20.0) -> float:
        """Wait until the job is in one of these states, and its supervisor has gone if it has ended."""
        waited = wait_until(lambda: self.rank().observe().state in states, seconds)
        if "running" not in states:
            waited += wait_until(lambda: not self.rank().lock_held())
        return waited

    def notes(self) -> list[dict[str, Any]]:
        """What the trainer and its children have written down."""
        if not self.report.exists():
            return []
        return [json.loads(line) for line in self.report.read_text(encoding="utf-8").splitlines()]

    def facts(self) -> dict[str, Any]:
        """What the trainer itself has written down, as soon as it has."""
        wait_until(lambda: any("argv" in note for note in self.notes()))
        return next(note for note in self.notes() if "argv" in note)

    def trainer_pids(self) -> list[int]:
        """The trainer and everything below it, in sessions of their own or not."""
        self.facts()
        return [int(note["pid"]) for note in self.notes()]

    def gone(self, pids: list[int]) -> bool:
        """Whether none of these processes runs any more."""
        return not any(_procfs.running(pid) for pid in pids)
