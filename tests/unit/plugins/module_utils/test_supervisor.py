# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pure parts of the supervisor; what it does to processes is in tests/integration."""

from __future__ import annotations

import ast
import datetime
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _environment, _supervisor
from hypothesis import given
from hypothesis import strategies as st


def _exit(code: int) -> int:
    return code << 8


@pytest.mark.parametrize(
    ("report", "guard", "left", "state", "code", "number", "reason"),
    [
        ({"exit": 0, "stopped": False}, 0, [], "finished", 0, None, "the trainer ended with exit code 0"),
        ({"exit": _exit(1), "stopped": False}, 0, [], "failed", 1, None, "the trainer ended with exit code 1"),
        ({"exit": 9, "stopped": False}, 0, [], "failed", None, 9, "the trainer was killed by signal 9 (SIGKILL)"),
        ({"exit": 6 | 128, "stopped": False}, 0, [], "failed", None, 6, "the trainer was killed by signal 6 (SIGABRT)"),
        (
            {"exit": 15, "stopped": True},
            0,
            [],
            "stopped",
            None,
            15,
            "stopped on request; the trainer was killed by signal 15 (SIGTERM)",
        ),
        (
            {"exit": 0, "stopped": True},
            0,
            [],
            "stopped",
            0,
            None,
            "stopped on request; the trainer ended with exit code 0",
        ),
        ({"error": "no such file"}, 0, [], "failed", None, None, "no such file"),
        (
            {"trainer_pid": 5},
            9,
            [],
            "failed",
            None,
            None,
            "the guard process was killed by signal 9 (SIGKILL); the training processes below it were ended",
        ),
        (
            {},
            _exit(1),
            [7],
            "failed",
            None,
            None,
            "the guard process ended with exit code 1; the training processes below it were ended; still there after SIGKILL: 7",
        ),
        (
            {"exit": 0, "stopped": True, "left": [5, 6]},
            0,
            [],
            "stopped",
            0,
            None,
            "stopped on request; the trainer ended with exit code 0; still there after SIGKILL: 5, 6",
        ),
    ],
)
def test_outcome(
    report: dict[str, Any], guard: int, left: list[int], state: str, code: int | None, number: int | None, reason: str
) -> None:
    result = _supervisor.outcome(report, guard, left)
    assert (result["state"], result["returncode"], result["signal"], result["reason"]) == (state, code, number, reason)


def test_names_of_signals() -> None:
    assert _supervisor.signal_name(9) == "SIGKILL"
    assert _supervisor.signal_name(99) == "99"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        # Captured; names may hold blanks, parentheses and line ends.
        ("12 (python3) S 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 99 0", (7, True)),
        ("12 (a (b) c) R 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 99 0", (7, True)),
        ("12 (python3) Z 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 99 0", (7, False)),
        ("12 (python3) Z 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 8 0 99 0", (7, True)),
        ("12 (python3) X 7 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 0 0 99 0", (7, False)),
        ("12 (python3) S", None),
        ("", None),
    ],
)
def test_parse_stat(text: str, parsed: tuple[int, bool] | None) -> None:
    assert _supervisor.parse_stat(text) == parsed


def _spec(**more: Any) -> dict[str, Any]:
    return {"drop": list(_environment.DROPPED), "environment": {}, "marker": {}, **more}


def test_environment_of_the_trainer() -> None:
    inherited = {
        "RANK": "3",
        "PET_X": "1",
        "http_proxy": "p",
        "HTTPS_PROXY": "p",
        "PATH": "/bin",
        "HOME": "/root",
        "A": "0",
    }
    spec = _spec(environment={"A": "1", "B": "1", "C": "1"}, marker={"C": "3"}, bin_dir="/opt/venv/bin")
    assert _supervisor.trainer_environment(spec, inherited, {"B": "2", "C": "2"}) == {
        "PATH": "/opt/venv/bin:/bin",
        "HOME": "/root",
        "A": "1",
        "B": "2",
        "C": "3",
    }


def test_a_secret_is_no_way_around_the_facts_about_ranks() -> None:
    spec = _spec(environment={"NODE_RANK": "1", "A": "1"}, facts=list(_environment.RANK_FACTS))
    found = _supervisor.trainer_environment(spec, {}, {"NODE_RANK": "0", "A": "2", "MASTER_ADDR": "elsewhere"})
    assert (found["NODE_RANK"], found["A"]) == ("1", "2")


@given(st.text(min_size=1), st.sampled_from(_environment.DROPPED))
def test_a_name_made_after_a_pattern_matches_it(name: str, pattern: str) -> None:
    assert _supervisor.matches(pattern.replace("*", name), pattern)
    assert _supervisor.matches(f"-{pattern}-", pattern) is False


@pytest.mark.parametrize(
    ("text", "grace"), [('{"grace": 3}', 3.0), ("{}", 30.0), ("[]", 30.0), ("{", 30.0), ('{"grace": null}', 30.0)]
)
def test_grace(tmp_path: Path, text: str, grace: float) -> None:
    (tmp_path / "stop.json").write_text(text, encoding="utf-8")
    assert _supervisor.stop_grace(str(tmp_path), {}) == grace
    assert _supervisor.stop_grace(str(tmp_path / "nothing"), {"stop_grace": 7}) == 7.0


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    _supervisor.write_atomically(str(path), "one")
    before = path.stat()
    _supervisor.write_atomically(str(path), "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "status.json").mkdir()
    with pytest.raises(IsADirectoryError):
        _supervisor.write_atomically(str(tmp_path / "status.json"), "hidden")
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_a_final_status_without_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_supervisor, "WRITE_PAUSE", 0.01)
    path = tmp_path / "status.json"
    path.mkdir()
    monkeypatch.setattr(_supervisor.time, "sleep", lambda seconds: path.rmdir())
    _supervisor._write_final_status(str(tmp_path), {"state": "finished"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"state": "finished"}
    assert "the status 'finished' could not be written: " in capfd.readouterr().err
    path.unlink()
    path.mkdir()
    monkeypatch.setattr(_supervisor, "WRITE_SECONDS", -1.0)
    _supervisor._write_final_status(str(tmp_path), {"state": "finished"})
    assert 'the status would be: {"state": "finished"}' in capfd.readouterr().err


@pytest.mark.parametrize(
    ("hard", "soft"),
    [(1024, 1024), (1048576, 1048576), (1073741816, 1048576), (resource.RLIM_INFINITY, 1048576)],
)
def test_open_files_are_raised_up_to_a_bound(monkeypatch: pytest.MonkeyPatch, hard: int, soft: int) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: set_to.append(limits))
    _supervisor._raise_open_files()
    assert set_to == [(soft, hard)]


def test_secrets_that_were_taken_back_start_nothing(tmp_path: Path) -> None:
    assert _supervisor._secrets(str(tmp_path), {"secret_names": []}) == {}
    with pytest.raises(FileNotFoundError):
        _supervisor._secrets(str(tmp_path), {"secret_names": ["API_KEY"]})


def test_the_lock_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_supervisor, "LOCK_SECONDS", 0.2)
    path = str(tmp_path / "lock")
    with open(path, "w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert _supervisor.take_lock(path) is None
        (tmp_path / "spec.json").write_text("{}", encoding="utf-8")
        assert _supervisor.supervise(str(tmp_path)) == _supervisor.LOCKED_OUT
    lock = _supervisor.take_lock(path)
    assert lock is not None
    assert os.get_inheritable(lock) is False
    os.close(lock)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not found or not executable") as failure:
        _supervisor.spawn(str(tmp_path), {"argv": ["no-such-program"]}, {"PATH": "/bin"})
    assert failure.value.errno == errno.ENOENT


def test_why_a_trainer_could_not_be_started(tmp_path: Path) -> None:
    spec = {"argv": ["true"], "cwd": str(tmp_path / "nowhere")}
    with pytest.raises(OSError, match="nowhere") as missing:
        _supervisor.spawn(str(tmp_path), spec, dict(os.environ))
    assert _supervisor.not_started(missing.value, spec) == f"No such file or directory: {tmp_path}/nowhere"
    with pytest.raises(ValueError, match="null") as impossible:
        _supervisor.spawn(str(tmp_path), {"argv": ["true", "a\0b"]}, dict(os.environ))
    words = _supervisor.not_started(impossible.value, spec)
    assert words.startswith("an argument or an environment variable cannot be passed on (")
    assert _supervisor.not_started(OSError(errno.ENOENT, "not found"), spec) == "not found: true"


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        before = os.dup(2)
        os.dup2(full.fileno(), 2)
        try:
            _supervisor.log("asked to stop")
        finally:
            os.dup2(before, 2)
            os.close(before)


def test_any_text_can_be_logged(capfd: pytest.CaptureFixture[str]) -> None:
    _supervisor.log("attempt 1: swift --model /data/\udcff")
    assert capfd.readouterr().err.endswith("swift --model /data/\\udcff\n")


def test_nobody_reads_the_report() -> None:
    reports, ours = os.pipe()
    os.close(reports)
    _supervisor.tell(ours, {"exit": 0})
    os.close(ours)


def test_an_unknown_option_of_prctl() -> None:
    with pytest.raises(OSError, match="prctl 9999"):
        _supervisor.prctl(9999, 0)


def test_signals_to_processes_that_are_gone() -> None:
    _supervisor._signal_all([2**22 + 1], signal.SIGTERM)


def test_it_needs_the_standard_library_alone() -> None:
    tree = ast.parse(Path(_supervisor.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import _supervisor"
    folder = os.path.dirname(_supervisor.__file__)
    subprocess.run([sys.executable, "-I", "-S", "-c", code, folder], check=True)


def test_times_have_an_offset() -> None:
    told = datetime.datetime.fromisoformat(_supervisor.now())
    assert told.utcoffset() == datetime.timedelta(0)
    assert abs((datetime.datetime.now(datetime.timezone.utc) - told).total_seconds()) < 60
