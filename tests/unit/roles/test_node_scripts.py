# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that two roles run on a node, run here: this machine is a node too."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROLES = Path(__file__).resolve().parents[3] / "roles"
INSIDE = ROLES / "modelscope_container" / "files" / "inside.py"
OBSERVE = ROLES / "modelscope_container" / "files" / "observe.py"
PROBE = ROLES / "docker_engine" / "files" / "probe.py"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"node_script_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(path: Path, *words: str, question: Any = None) -> dict[str, Any]:
    """The way the roles run them: as text in an argument, the question on standard input."""
    done = subprocess.run(
        [sys.executable, "-c", path.read_text(), *words],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("path", [INSIDE, OBSERVE, PROBE], ids=lambda path: path.stem)
def test_scripts_use_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_inside_reports_this_machine(tmp_path: Path) -> None:
    question = {
        "devices": ["/dev/null", "/dev/none"],
        "outputs": [str(tmp_path / "new" / "run"), "/proc/x"],
        "write": True,
    }
    answer = run(INSIDE, json.dumps(question))
    assert answer["devices"] == {"/dev/null": None}
    assert answer["outputs"][str(tmp_path / "new" / "run")]["tried"] == str(tmp_path)
    assert answer["outputs"][str(tmp_path / "new" / "run")]["error"] is None
    assert answer["outputs"]["/proc/x"] == {
        "tried": "/proc",
        "filesystem": "proc",
        "error": "No such file or directory",
    }
    assert len(answer["limits"]["nofile"]) == 2
    assert int(answer["cap_eff"], 16) >= 0
    assert answer["mounts"]["/proc"] == "proc"
    assert list(tmp_path.iterdir()) == []


def test_inside_writes_nothing_when_told_so(tmp_path: Path) -> None:
    inside = load(INSIDE)
    answer = inside.outputs([str(tmp_path)], {"/": "ext4"}, False)
    assert answer == {str(tmp_path): {"tried": str(tmp_path), "filesystem": "ext4", "error": None}}


@pytest.mark.parametrize(
    ("path", "kind"), [("/data/out", "nfs4"), ("/data", "nfs4"), ("/database", "ext4"), ("/", "ext4")]
)
def test_the_longest_mount_point_counts(path: str, kind: str) -> None:
    assert load(INSIDE).file_system(path, {"/": "ext4", "/data": "nfs4"}) == kind


def test_inside_counts_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = load(INSIDE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inside.gpus() == (0, None)
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\necho 'GPU 1: NVIDIA H200 (UUID: GPU-2)'\n")
    smi.chmod(0o755)
    assert inside.gpus() == (2, None)
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    assert inside.gpus() == (0, "Failed to initialize NVML: Driver/library version mismatch")


def test_observe_reports_the_node(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"123")
    question = {
        "container": "",
        "space": False,
        "devices": ["/dev/null", "/dev/none", str(tmp_path)],
        "paths": [str(archive), "/none"],
    }
    node = run(OBSERVE, question=question)["node"]
    assert node["devices"] == {"/dev/null": [], "/dev/none": None, str(tmp_path): ["image.tar"]}
    assert node["paths"] == {str(archive): True, "/none": False}
    assert node["sizes"] == {str(archive): 3}


@pytest.mark.parametrize(
    ("docker", "inside", "error"),
    [
        ('echo \'{"user": "root"}\'', {"user": "root"}, None),
        ("echo nothing", None, "no JSON but 'nothing\\n'"),
        ("echo broken >&2; exit 1", None, "broken"),
        ("exit 3", None, "exit code 3"),
        ("sleep 5", None, "no answer within 1 s"),
    ],
)
def test_observe_asks_in_the_container(
    docker: str, inside: Any, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\n{docker}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    question = {"container": "c", "inside": {}, "script": "pass", "timeout": 1}
    assert load(OBSERVE).inside(question) == (inside, error)


def test_probe_reports_this_machine(tmp_path: Path) -> None:
    notes = tmp_path / "notes.json"
    notes.write_text('{"packages": ["docker.io"]}')
    question = {
        "notes": str(notes),
        "pending": str(tmp_path / "none"),
        "daemon_config_path": str(notes),
        "drop_in_path": "/none",
    }
    answer = run(PROBE, question=question)
    assert answer["installed"] == ["docker.io"]
    assert answer["pending"] is None
    assert answer["daemon_config"]["text"] == notes.read_text()
    assert answer["drop_in"] is None
    assert answer["python"]["executable"] == sys.executable
    assert isinstance(answer["packages"], list)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"proxies": {"http-proxy": "http://u:p@h:1"}}', '{"proxies": {"http-proxy": "***@h:1"}}'),
        ('{"proxies": {"https-proxy": "u:p@ss@h:1"},}', '{"proxies": {"https-proxy": "***@h:1"},}'),
        ('{"registry-mirrors": ["https://token@m"]}', '{"registry-mirrors": ["https://***@m"]}'),
        ('Environment="HTTP_PROXY=http://u:p%%40@h"', 'Environment="HTTP_PROXY=***@h"'),
        ('{"labels": ["mail=a@b"], "registry-mirrors": ["https://m"]}', None),
    ],
)
def test_probe_hides_passwords(text: str, shown: str | None, tmp_path: Path) -> None:
    config = tmp_path / "daemon.json"
    config.write_text(text)
    question = {"notes": "/none", "pending": "/none", "daemon_config_path": str(config), "drop_in_path": "/none"}
    answer = run(PROBE, question={**question, "hide": True})
    assert answer["daemon_config"]["text"] == (shown or text)
    assert answer["hidden"] is bool(shown)
    whole = run(PROBE, question={**question, "hide": False})
    assert (whole["daemon_config"]["text"], whole["hidden"]) == (text, False)


def test_probe_lists_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker"
    theirs = '{"name":"/db","labels":null,"pid":8,"path":"postgres","arguments":["--password=x"]}'
    ours = '{"name":"/t","labels":{"io.trainyard.swift.digest":"d"},"pid":7,"path":"sleep","arguments":["infinity"]}'
    program.write_text(
        f"#!/bin/sh\n[ $1 = ps ] && echo 1 2 && exit\necho '{theirs}'\necho '{ours}'\necho gone\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert load(PROBE).containers() == [
        {"name": "db", "ours": False},
        {"name": "t", "ours": True, "pid": 7, "entrypoint": ["sleep", "infinity"]},
    ]


def test_probe_looks_for_ways_to_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probe = load(PROBE)
    assert probe.nvidia([str(tmp_path), "/none"]) == {"hook": None, "cdi": None}
    hook = tmp_path / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    spec = tmp_path / "nvidia.yaml"
    spec.write_text("kind: nvidia.com/gpu\n")
    assert probe.nvidia([str(tmp_path)]) == {"hook": str(hook), "cdi": str(spec)}
    assert probe.nvidia(None)["cdi"] is None


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ("", []),
        ("Started.\nStopped.", ["Started.", "Stopped."]),
        (
            'time="1" level=info msg="fine"\ntime="2" level=error msg="bad"\ntime="3" level=error msg="bad"\n'
            "docker.service: Failed with result exit-code, error 1\nfailed to start daemon: no driver",
            ['level=error msg="bad"', "failed to start daemon: no driver"],
        ),
    ],
)
def test_probe_picks_the_daemons_own_words(journal: str, words: list[str]) -> None:
    assert load(PROBE).last_words(journal) == words
