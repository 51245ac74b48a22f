# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other ways to the same run: the installed collection, more nodes, the host runtime, ansible-runner's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.conftest import ROOT, STATE, Node, Run

pytestmark = pytest.mark.cluster

BIN = Path(sys.executable).parent
SHORT: dict[str, Any] = {"max_steps": 6, "save_steps": 6}


def job(name: str, **more: Any) -> dict[str, Any]:
    return {
        "train_job": name,
        "train_rerun": True,
        "train_wait": True,
        "train_arguments_extra": {**SHORT, "output_dir": f"/data/train_output/{name}"},
        **more,
    }


def command(*argv: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_the_installed_collection_trains(tmp_path: Path, inventory: Path) -> None:
    command("ansible-galaxy", "collection", "build", "--output-path", str(tmp_path), cwd=ROOT)
    tarball = next(tmp_path.glob("trainyard-swift-*.tar.gz"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    installed = elsewhere / "collections"
    command("ansible-galaxy", "collection", "install", str(tarball), "--no-deps", "-p", str(installed), cwd=elsewhere)
    # The dependency that `make` brought, without the link to this checkout beside it.
    (installed / "ansible_collections" / "community").symlink_to(ROOT / "collections/ansible_collections/community")
    extra = elsewhere / "job.json"
    extra.write_text(json.dumps(job("e2e-installed")))
    out = command(
        "ansible-playbook", "trainyard.swift.train", "-i", str(inventory), "-e", f"@{extra}",
        cwd=elsewhere,
        ANSIBLE_COLLECTIONS_PATH=str(installed),
        ANSIBLE_INJECT_FACT_VARS="false",
    )  # fmt: skip
    assert "6/6" in out
    assert "DEPRECATION WARNING" not in out


def test_the_newest_core_trains_without_a_deprecation(tmp_path: Path, inventory: Path) -> None:
    """From the environment of `make newest`: Python 3.13 and the newest ansible-core."""
    newest = ROOT / ".venv-newest" / "bin"
    if not newest.exists() and not os.environ.get("CI"):
        pytest.skip("NOT TESTED: the newest ansible-core, as `make newest` has found no Python for it")
    extra = tmp_path / "job.json"
    extra.write_text(json.dumps(job("e2e-newest")))
    out = command(
        str(newest / "ansible-playbook"), "train.yml", "-i", str(inventory), "-e", f"@{extra}",
        cwd=ROOT,
        PATH=f"{newest}:{os.environ['PATH']}",
    )  # fmt: skip
    assert "6/6" in out
    assert "DEPRECATION WARNING" not in out


def test_ansible_runner_from_its_command_line(tmp_path: Path, inventory: Path) -> None:
    """As docs/ci.md says: JSON events as artefacts, and an exit code to trust."""
    good = ("ansible-runner", "run", str(tmp_path), "--project-dir", str(ROOT), "--inventory", str(inventory))
    command(*good, "-p", "provision.yml", "--ident", "good", cwd=ROOT)
    events = list((tmp_path / "artifacts" / "good" / "job_events").glob("*.json"))
    assert any(json.loads(path.read_text())["event"] == "playbook_on_stats" for path in events)
    with pytest.raises(AssertionError, match="job name"):
        command(*good, "-p", "validate.yml", "--ident", "bad", "--cmdline", "-e train_job=Not_Good", cwd=ROOT)
    assert (tmp_path / "artifacts" / "bad" / "rc").read_text().strip() != "0"


def test_two_colocated_nodes_on_this_machine_in_the_host_runtime(play: Any, tmp_path: Path) -> None:
    venv = STATE / "swift-venv"
    assert (venv / "bin" / "swift").exists(), "make e2e makes it: local_cluster_host_venv=true"
    data = STATE / "data"
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "swift_colocated": True,
            "train_jobs_dir": str(tmp_path / name),
        }
        for name in ("left", "right")
    }
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"swift_nodes": {"hosts": hosts}}))
    arguments = yaml.safe_load((ROOT / "inventory/group_vars/swift_nodes/train.yml").read_text())["train_arguments"]
    arguments.update(
        SHORT,
        model=str(data / "models/tiny-qwen2"),
        dataset=[str(data / "train_data/pt_*.jsonl")],
        output_dir=str(tmp_path / "output"),
    )
    run: Run = play(
        "train.yml",
        inventory=path,
        train_job="e2e-host",
        train_runtime="host",
        train_bin_dir=str(venv / "bin"),
        train_arguments=arguments,
        train_wait=True,
    )
    assert run.rc == 0
    assert "6/6" in run.messages()
    for rank, name in enumerate(hosts):
        output = (tmp_path / name / "e2e-host" / f"rank-{rank}" / "output.log").read_text()
        assert f"rank: {rank}, local_rank: 0, world_size: 2" in output
    assert list((tmp_path / "output").glob("v0-*/checkpoint-6/model.safetensors"))


@pytest.mark.parametrize("count", [3, 4])
def test_three_and_four_nodes(play: Any, tmp_path: Path, nodes: dict[str, Node], count: int) -> None:
    run: Run = play("local_cluster.yml", local_cluster_nodes=4)
    assert run.rc == 0
    hosts = yaml.safe_load((STATE / "inventory" / "hosts.yml").read_text())
    listed = hosts["swift_nodes"]["hosts"]
    hosts["swift_nodes"]["hosts"] = dict(list(listed.items())[:count])
    copy = tmp_path / "inventory"
    copy.mkdir()
    (copy / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (copy / "group_vars").symlink_to(ROOT / "inventory/group_vars")
    run = play("train.yml", inventory=copy, **job(f"e2e-{count}-nodes"))
    assert run.rc == 0
    text = run.messages()
    assert "6/6" in text
    for rank in range(count):
        assert f"node{rank + 1}" in text
    output = nodes["node1"].run(f"cat /var/lib/trainyard/jobs/e2e-{count}-nodes/rank-0/output.log")
    assert f"rank: 0, local_rank: 0, world_size: {count}, local_world_size: 1" in output
