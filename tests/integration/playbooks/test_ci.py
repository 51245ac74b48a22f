# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/ci.md says about ansible-runner is tried, with a playbook that needs no host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from playbooks import ROOT, write_inventory

NODES = {"node1": {"ansible_host": "192.0.2.1"}}
GUIDE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def block(language: str, word: str) -> str:
    """The first code block in this language that has this word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if word in text)


def execute(argv: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run in the test's folder, as if it were the checkout."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "BUILD_ID": "17", "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The parts of the checkout that a run needs, with an inventory that is not the local cluster."""
    for name in ("ansible.cfg", "collections", "playbooks", "validate.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "inventory").mkdir()
    return tmp_path


@pytest.mark.parametrize(("job", "code", "status"), [("tiny", 0, "successful"), ("Tiny", 2, "failed")])
def test_command_has_an_exit_code_to_trust_and_keeps_events(checkout: Path, job: str, code: int, status: str) -> None:
    write_inventory(checkout / "inventory", NODES)
    command = block("sh", "ansible-runner run").replace("train.yml", "validate.yml")
    done = execute(["bash", "-c", command.replace("train_wait=true", f"train_job={job}")], checkout)
    assert done.returncode == code, done.stdout + done.stderr
    kept = checkout / ".runner" / "17" / "artifacts" / "run"
    assert (kept / "rc").read_text() == str(code)
    assert (kept / "status").read_text() == status
    events = [json.loads(path.read_text()) for path in (kept / "job_events").glob("*.json")]
    failed = [event["event_data"] for event in events if event["event"] == "runner_on_failed"]
    assert len(failed) == (1 if code else 0)
    assert all("The job name 'Tiny' cannot be used" in data["res"]["msg"] for data in failed)


def test_python_has_an_exit_code_to_trust(checkout: Path) -> None:
    write_inventory(checkout / "inventory", NODES)
    program = block("python", "ansible_runner.run").replace("train.yml", "validate.yml")
    done = execute([sys.executable, "-c", program.replace('"train_wait": True', '"train_job": "Tiny"')], checkout)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "node1 train_job: The job name 'Tiny' cannot be used" in done.stderr


def test_pipeline_is_valid_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    pipeline = yaml.safe_load((ROOT / "docs" / "ci-pipeline.example.yml").read_text(encoding="utf-8"))
    jobs = {name: job for name, job in pipeline.items() if isinstance(job, dict) and "script" in job}
    assert {job["stage"] for job in jobs.values()} == set(pipeline["stages"])
