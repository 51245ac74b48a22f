# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _probe


@pytest.mark.parametrize(
    ("lines", "interpreter"),
    [
        (["#!/usr/bin/python3\n", ""], "/usr/bin/python3"),
        (["#!/opt/venv/bin/python -I\n", ""], "/opt/venv/bin/python"),
        (["#!/usr/bin/env python3\n", ""], "python3"),
        (["#!/usr/bin/env -S python3 -u\n", ""], "python3"),
        (["#!/bin/sh\n", '\'\'\'exec\' "/a folder/bin/python" "$0" "$@"\n'], "/a folder/bin/python"),
        (["#!/bin/sh\n", "'''exec' /very/long/bin/python \"$0\" \"$@\"\n"], "/very/long/bin/python"),
        (["#!/bin/sh\n", "exit 1\n"], None),
        (["#!\n", ""], None),
        (["\x7fELF\n", ""], None),
        (["", ""], None),
    ],
)
def test_shebang(lines: list[str], interpreter: str | None) -> None:
    assert _probe.shebang(lines) == interpreter


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", None), ("400000 100000", 4), ("50000 100000", 1), ("-1 100000", None), ("", None), ("1 0", None)],
)
def test_cpu_quota(text: str, cores: int | None) -> None:
    assert _probe.cpu_quota(text) == cores


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("0\n1\n2\n", [0, 1, 2]), ("", []), ("No devices were found\n", [])],
)
def test_gpu_indices(text: str, gpus: list[int]) -> None:
    assert _probe.gpu_indices(text) == gpus


def test_visible_gpus_asks_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _probe.visible_gpus() == []
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 0\necho 1\n", encoding="utf-8")
    program.chmod(0o755)
    assert _probe.visible_gpus() == [0, 1]
    program.write_text("#!/bin/sh\necho broken\nexit 9\n", encoding="utf-8")
    assert _probe.visible_gpus() == []


def test_cores_are_never_none() -> None:
    assert 1 <= _probe.cores() <= (os.cpu_count() or 1)


def test_version_without_importing() -> None:
    assert _probe.trainer_version("/no/such/python") is None
    assert _probe._output([sys.executable, "-c", "print(1)"]) == "1\n"
    assert _probe._output([sys.executable, "-c", "raise SystemExit(1)"]) is None
    assert _probe.interpreter("/no/such/file") is None


def _checkpoint(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "complete"),
    [
        (["trainer_state.json", "model.safetensors", "optimizer.pt"], True),
        (["trainer_state.json", "model.safetensors.index.json", "global_step5/x"], True),
        (["trainer_state.json", "adapter_model.safetensors", "optimizer.pt"], True),
        (["trainer_state.json", "global_step5/x"], True),
        (["trainer_state.json", "model.safetensors"], False),  # saved with save_only_model
        (["trainer_state.json", "optimizer.pt"], False),
        (["model.safetensors", "optimizer.pt"], False),
        (["rng_state_1.pth"], False),  # what other nodes hold without shared storage
        ([], False),
    ],
)
def test_complete_swift_checkpoints(tmp_path: Path, names: list[str], complete: bool) -> None:
    assert _probe.complete(str(_checkpoint(tmp_path / "checkpoint-5", *names))) is complete


@pytest.mark.parametrize(
    ("tracker", "names", "complete"),
    [
        ("5", ["iter_0000005/.metadata", "iter_0000005/__0_0.distcp", "iter_0000005/common.pt"], True),
        ("5", ["iter_0000005/common.pt"], False),  # saved without the optimizer
        ("5", ["iter_0000004/.metadata", "iter_0000004/__0_0.distcp"], False),
        ("release", ["iter_0000005/.metadata", "iter_0000005/__0_0.distcp"], False),
        ("", [], False),
    ],
)
def test_complete_megatron_checkpoints(tmp_path: Path, tracker: str, names: list[str], complete: bool) -> None:
    folder = _checkpoint(tmp_path / "checkpoint-5", *names)
    (folder / "latest_checkpointed_iteration.txt").write_text(tracker, encoding="utf-8")
    assert _probe.complete(str(folder)) is complete


def test_checkpoints_in_the_order_of_their_runs(tmp_path: Path) -> None:
    full = ("trainer_state.json", "model.safetensors", "optimizer.pt")
    for name in ("v10-20260102-000000/checkpoint-5", "v2-20260101-000000/checkpoint-100", "checkpoint-7"):
        _checkpoint(tmp_path / name, *full)
    _checkpoint(tmp_path / "v10-20260102-000000/checkpoint-10")
    (tmp_path / "v10-20260102-000000" / "last-checkpoint").symlink_to("checkpoint-10")
    found = _probe.checkpoints(str(tmp_path))
    assert [(item["step"], item["complete"]) for item in found] == [(7, True), (100, True), (5, True), (10, False)]
    assert _probe.checkpoints(str(tmp_path / "nothing")) == []


def test_folder_state(tmp_path: Path) -> None:
    assert _probe.folder_state(str(tmp_path)) == "ok"
    assert _probe.folder_state(str(tmp_path / "nothing")) == "missing"
    assert _probe.folder_state("/proc/sys") in ("ok", "read-only")
    assert _probe.inode(str(tmp_path)) == tmp_path.stat().st_ino
    assert _probe.inode(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize("listening", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_port_that_is_taken_on_any_address(listening: str) -> None:
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with socket.socket(family) as server:
        try:
            server.bind((listening, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        server.listen()
        port = server.getsockname()[1]
        assert _probe.port_state("127.0.0.1", port) == "taken"
    assert _probe.port_state("127.0.0.1", port) == "free"
    assert _probe.port_state("localhost", port) == "free"


def test_a_master_address_that_is_not_ours() -> None:
    assert _probe.port_state("192.0.2.77", 29500) == "not here"
    assert _probe.port_state("no-such-host.invalid", 29500) == "unknown name"


def test_as_a_script(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).touch()
    pattern = f"{tmp_path}/*.jsonl"
    request = {
        "framework": "swift",
        "bin_dir": str(tmp_path),
        "globs": [pattern],
        "jobs_dir": str(tmp_path),
        "port": None,
    }
    code = Path(_probe.__file__).read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, json.dumps(request)], capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["files"] == {pattern: [f"{tmp_path}/a.jsonl", f"{tmp_path}/b.jsonl"]}
    assert (seen["program"], seen["version"], seen["port"], seen["uid"]) == (None, None, None, os.getuid())
