# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _runtime
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError


def test_the_supervisor_travels_with_the_module() -> None:
    assert "def supervise(" in _runtime.source("_supervisor")


def test_a_source_that_did_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime.pkgutil, "get_data", lambda package, name: None)
    with pytest.raises(SwiftError, match=r"_supervisor\.py did not come along"):
        _runtime.source("_supervisor")


def test_host_environment() -> None:
    inherited = {"PATH": "/bin", "HOME": "/root", "SUDO_USER": "a", "SSH_AUTH_SOCK": "s", "VAULT_PASSWORD": "x"}
    assert _runtime.host_environment(inherited) == {"PATH": "/bin", "HOME": "/root"}


@pytest.mark.parametrize(
    ("files", "memory", "may_raise", "expected"),
    [
        (1024, 8192, False, ["LimitNOFILE=1024", "LimitMEMLOCK=8192"]),
        (-1, 8192, True, ["LimitNOFILE=infinity", "LimitMEMLOCK=infinity"]),
        (1024, -1, False, ["LimitNOFILE=1024", "LimitMEMLOCK=infinity"]),
    ],
)
def test_unit_options(
    files: int, memory: int, may_raise: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {_runtime.resource.RLIMIT_NOFILE: files, _runtime.resource.RLIMIT_MEMLOCK: memory}
    monkeypatch.setattr(_runtime.resource, "getrlimit", lambda which: (0, limits[which]))
    options = _runtime.unit_options("/var/lib/trainyard/jobs/demo/rank-1", may_raise)
    assert options[0].startswith("--unit=trainyard-demo-rank-1-")
    for limit in expected:
        assert f"--property={limit}" in options
    assert "--property=KillMode=mixed" in options


def test_may_raise_limits_is_read_from_the_kernel() -> None:
    limits = "resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0}))"
    code = f"import resource; {limits.format(100)}; {limits.format(101)}"
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert _runtime.may_raise_limits() is (tried.returncode == 0)


class Commands:
    """Records commands in place of running them."""

    def __init__(self, code: int, error: str = "") -> None:
        self.code = code
        self.error = error
        self.seen: list[list[str]] = []
        self.warnings: list[str] = []
        self.detached: list[str] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        self.seen.append(argv)
        return self.code, "", self.error


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with systemd, as far as can be seen from here."""
    program = tmp_path / "systemd-run"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_runtime, "_SYSTEMD", str(tmp_path))
    monkeypatch.setattr(_runtime.os, "geteuid", lambda: 0)
    return program


def _launch(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = _runtime.HostRuntime(commands.run, commands.warnings.append)
    monkeypatch.setattr(runtime, "_launch_detached", lambda directory, marker: commands.detached.append(directory))
    runtime.launch("/jobs/demo/rank-0", {"TRAINYARD_JOB": "demo/rank-0"})


def test_a_unit_of_systemd(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(0)
    _launch(commands, monkeypatch)
    argv = commands.seen[0]
    assert argv[0] == str(systemd)
    assert argv[-3:] == [sys.executable, "/jobs/demo/rank-0/supervisor.py", "/jobs/demo/rank-0"]
    assert "--setenv=TRAINYARD_JOB=demo/rank-0" in argv
    assert commands.detached == []


def test_a_systemd_that_refuses(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(1, "Failed to connect to bus")
    _launch(commands, monkeypatch)
    assert "Failed to connect to bus" in commands.warnings[0]
    assert commands.detached == ["/jobs/demo/rank-0"]


def test_a_systemd_without_systemd_run(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd.unlink()
    commands = Commands(0)
    _launch(commands, monkeypatch)
    assert (commands.seen, commands.detached) == ([], ["/jobs/demo/rank-0"])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"Status": "running"}, None),
        ({"Status": "exited", "FinishedAt": "2026-11-30T10:00:00Z"}, "(it is exited, since 2026-11-30T10:00:00Z)"),
        ({"Status": "created"}, "'docker start trainyard'"),
        ({"Status": "paused", "Paused": True}, "'docker unpause trainyard'"),
        ({"Status": "restarting"}, "(it is restarting)"),
        ({}, "(it is unknown)"),
    ],
)
def test_container_problem(state: dict[str, Any], words: str | None) -> None:
    problem = _runtime.container_problem("trainyard", state)
    assert (problem is None) if words is None else (words in str(problem))


def test_layers() -> None:
    assert _runtime.layers_digest(["a", "b"]) == _runtime.layers_digest(("a", "b"))
    assert _runtime.layers_digest(["a", "b"]) != _runtime.layers_digest(["b", "a"])


@pytest.mark.parametrize(
    ("code", "out", "error", "words"),
    [
        (127, b"", b"exec: python3: not found", "It needs python3 on its PATH"),
        (1, b"", b"Traceback\nValueError: x\n", "exit code 1: ValueError: x. Try"),
        (0, b"not json", b"", "exit code 0: not json. Try"),
        (0, b"", b"", "exit code 0: no output. Try"),
    ],
)
def test_a_container_that_does_not_answer(code: int, out: bytes, error: bytes, words: str) -> None:
    with pytest.raises(SwiftError) as failure:
        _runtime.answer("trainyard", code, out, error)
    assert words in str(failure.value)
    assert _runtime.answer("trainyard", 0, b'{"uid": 0}', b"") == {"uid": 0}
