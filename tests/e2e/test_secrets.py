# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret given to a job is found nowhere but in its 0600 file and the trainer's environment."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from e2e.conftest import Node, Run

pytestmark = pytest.mark.cluster

JOBS = "/var/lib/trainyard/jobs"
# New in every run: what an earlier run may have left in a journal is not this run's.
SECRET = f"correct-horse-{uuid.uuid4().hex}"
JOB: dict[str, Any] = {
    "train_job": "e2e-secret",
    "train_secrets": {"WANDB_API_KEY": SECRET},
    "train_arguments_extra": {
        "max_steps": 1000000,
        "save_steps": 100000,
        "output_dir": "/data/train_output/e2e-secret",
    },
}


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "vault.json"
    path.write_text(json.dumps(JOB))
    return f"-e @{path}"


def found_in(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]


def files_with_secret(node: Node) -> list[str]:
    """Encoded on the way: the node's own journal keeps the command lines of sudo, those of this search included."""
    encoded = base64.b64encode(SECRET.encode()).decode()
    return node.run(f"grep -rlFf <(echo {encoded} | base64 -d) {JOBS} | sort -u; true").split()


def test_a_secret_is_nowhere_but_where_it_belongs(play: Any, nodes: dict[str, Node], secret_file: str) -> None:
    for node in nodes.values():
        node.run(f"rm -rf {JOBS}/e2e-secret /data/train_output/e2e-secret")
    try:
        for options in (("--check", "--diff"), ("--diff",), ("--diff",)):
            run: Run = play("train.yml", secret_file, "-vvv", *options)
            assert run.rc == 0
            assert "WANDB_API_KEY" in run.stdout
            assert SECRET not in run.stdout
            assert found_in(run.artifacts) == []
        for rank, node in enumerate(nodes.values()):
            own = f"{JOBS}/e2e-secret/rank-{rank}"
            assert files_with_secret(node) == [f"{own}/secrets.json"]
            assert node.run(f"stat -c '%a %U' {own}/secrets.json").split() == ["600", "root"]
            assert SECRET not in node.run("ps -eo args")
            assert SECRET not in node.run("docker inspect trainyard; docker logs trainyard 2>&1")
            assert SECRET not in node.run("journalctl --no-pager -n 5000 2>/dev/null; true")
            # The trainer, on the other hand, has it.
            worker = node.run("pgrep -f [s]wift/cli/pt.py | tail -1").strip()
            assert SECRET in node.run(f"tr '\\0' '\\n' < /proc/{worker}/environ | grep ^WANDB_API_KEY=")
    finally:
        assert play("stop.yml", train_job="e2e-secret").rc == 0
    for node in nodes.values():
        assert files_with_secret(node) == []
