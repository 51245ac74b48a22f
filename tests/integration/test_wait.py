# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting on several hosts at once, with the real ansible-playbook: two nodes on this machine, local connection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import COVERAGE, Node

_ROOT = Path(__file__).parents[2]
_RESULT = "result-{{ inventory_hostname }}.json"


class Pair:
    """Two nodes, and a play on both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes = [Node(folder / f"node{number}") for number in range(2)]
        self.hosts: dict[str, dict[str, Any]] = {
            f"node{number}": {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "jobs_dir": str(node.jobs_dir),
            }
            for number, node in enumerate(self.nodes)
        }

    def start(self, *behaviours: dict[str, Any]) -> None:
        """Start one job on both nodes."""
        for rank, (node, behaviour) in enumerate(zip(self.nodes, behaviours)):
            node.start(extra={"nnodes": 2, "node_rank": rank, "colocated": True}, **behaviour)

    def wait(self, wait_for: str, seconds: int = 30, **play: Any) -> tuple[dict[str, Any], str]:
        """Results by host, and what a person saw."""
        options = {"name": "demo", "jobs_dir": "{{ jobs_dir }}", "wait_for": wait_for, "wait_timeout": seconds}
        tasks = [
            {"trainyard.swift.swift_job_info": options, "register": "seen", "ignore_unreachable": True},
            {
                "ansible.builtin.copy": {
                    "content": "{{ seen | to_json }}",
                    "dest": f"{self.folder}/{_RESULT}",
                },
                "vars": {"ansible_connection": "local"},
                "check_mode": False,
            },
        ]
        play = {"hosts": "all", "gather_facts": False, "any_errors_fatal": False, "tasks": tasks, **play}
        (self.folder / "play.json").write_text(json.dumps([play]), encoding="utf-8")
        (self.folder / "hosts.json").write_text(json.dumps({"all": {"hosts": self.hosts}}), encoding="utf-8")
        program = shutil.which("ansible-playbook", path=os.path.dirname(sys.executable))
        assert program is not None
        argv = [program, "-i", str(self.folder / "hosts.json"), str(self.folder / "play.json")]
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", *COVERAGE) if name in os.environ}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(_ROOT / "collections")
        environment["ANSIBLE_LOCAL_TEMP"] = str(self.folder / "tmp")
        done = subprocess.run(
            argv, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        text = done.stdout + done.stderr
        assert "DEPRECATION" not in text
        results = {
            path.stem.partition("-")[2]: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(self.folder.glob("result-*.json"))
        }
        return results, text


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two nodes on this machine."""
    made = Pair(tmp_path)
    yield made
    for node in made.nodes:
        if node.jobs_dir.exists():
            node.stop(stop_timeout=1)


def test_until_the_job_is_confirmed(pair: Pair) -> None:
    pair.start({"seconds": 300, "steps": 2}, {"seconds": 300})
    results, text = pair.wait("confirmed")
    for result in results.values():
        assert (result["satisfied"], result["wait_reason"]) == (True, "the job is confirmed on all hosts")
        assert result["jobs"][0]["confirmed"] is True
    assert "demo: 2 running, step 2/2, loss 5.8" in text


def test_until_the_job_has_ended(pair: Pair) -> None:
    pair.start({"seconds": 1, "steps": 2}, {"seconds": 4})
    results, text = pair.wait("ended")
    assert [result["satisfied"] for result in results.values()] == [True, True]
    assert [result["jobs"][0]["state"] for result in results.values()] == ["finished", "finished"]
    assert "demo: 2 finished" in text


def test_a_failure_on_one_node_ends_the_wait_of_all(pair: Pair) -> None:
    pair.start({"seconds": 300}, {"seconds": 3, "exit": 1, "words": "ValueError: no such file"})
    results, _text = pair.wait("confirmed")
    assert all(result["elapsed"] < 15 for result in results.values())
    for result in results.values():
        assert result["satisfied"] is False
        assert result["wait_reason"] == "node1: failed (ValueError: no such file)"
    assert results["node0"]["jobs"][0]["state"] == "running"


def test_a_wait_that_takes_too_long_says_for_what(pair: Pair) -> None:
    pair.start({"seconds": 300}, {"seconds": 300})
    results, text = pair.wait("confirmed", seconds=3)
    assert results["node0"]["satisfied"] is False
    assert results["node0"]["wait_reason"].startswith("not confirmed after 3 s, waiting for: ")
    assert "node0: the first logged step" in results["node0"]["wait_reason"]
    assert "waiting for the first logged step (node0)" in text


def test_one_look_is_enough_without_a_wait_and_in_check_mode(pair: Pair) -> None:
    pair.start({"seconds": 300}, {"seconds": 300})
    for wait_for, play in (("none", {}), ("ended", {"check_mode": True})):
        results, _text = pair.wait(wait_for, **play)
        assert results["node0"]["jobs"][0]["state"] == "running"
        assert "satisfied" not in results["node0"]


def test_a_host_that_cannot_be_reached(pair: Pair) -> None:
    pair.start({"seconds": 300, "steps": 1}, {"seconds": 300})
    pair.hosts["node1"].update(ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
    results, _text = pair.wait("confirmed")
    assert results["node1"]["unreachable"] is True
    assert results["node0"]["satisfied"] is False
    assert results["node0"]["wait_reason"].startswith("node1: unreachable")
