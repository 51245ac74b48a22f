# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters in a real run of ansible-playbook, with lazily templated and tagged variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.filter import (
    job_summary,
    picked_checkpoint,
    placement,
    plan_problems,
    prefix_lines,
    rank_map,
    swift_run,
)

ROOT = Path(__file__).parents[4]

INVENTORY = """
all:
  vars:
    broken: "{{ no_such_variable.key }}"
    network: 10.0.0
  children:
    swift_nodes:
      hosts:
        node1: {ansible_host: "{{ network }}.1", other: "{{ broken }}"}
        node2: {ansible_host: "{{ network }}.2", other: "{{ lookup('ansible.builtin.file', '/no/such/file') }}"}
    one_bad:
      hosts:
        node3: {ansible_host: "{{ broken }}"}
"""

PLAYBOOK = """
- name: Set facts as setup would, without reaching any host
  hosts: swift_nodes
  gather_facts: false
  connection: local
  tasks:
    - name: Facts of two nodes
      ansible.builtin.set_fact:
        cacheable: true
        interfaces: [lo, eth0]
        default_ipv4: {address: "{{ ansible_host }}", interface: eth0, macaddress: "02:{{ ansible_host }}"}
        eth0: {device: eth0, type: ether, active: true, ipv4: {address: "{{ ansible_host }}", prefix: "24"}}
        lo: {device: lo, type: loopback, active: true, ipv4: {address: 127.0.0.1, prefix: "8"}}
- name: Use every filter
  hosts: localhost
  gather_facts: false
  vars:
    train_arguments: {lr: "{{ 1e-5 }}", model: "{{ base }}/m"}
    base: /data
    job:
      job: "de{{ 'mo' }}"
      command_line: "NCCL_DEBUG=INFO NPROC_PER_NODE=8 swift pt --dataset {{ base }}/pt_*.jsonl"
      arguments: "{{ train_arguments }}"
      secrets: {WANDB_API_KEY: "{{ no_such_secret }}"}
      master_port: 29500
    nodes: "{{ groups['swift_nodes'] | default([]) | trainyard.swift.rank_map(hostvars) }}"
    checkpoint: {path: /o/checkpoint-5, step: 5, complete: true}
    plan: {action: start, state: absent, argv: ["{{ base }}"], files: {}, checkpoints: ["{{ checkpoint }}"]}
    answer: {jobs: [{name: demo, state: running, progress: {step: 5, steps: "{{ 10 }}"}, output_tail: [one, two]}]}
    found:
      rank_map: "{{ nodes }}"
      no_group: "{{ groups['nobody'] | default([]) | trainyard.swift.rank_map(hostvars) }}"
      one_bad: "{{ groups['one_bad'] | trainyard.swift.rank_map(hostvars) }}"
      swift_run: "{{ job | trainyard.swift.swift_run(nodes) }}"
      placement: "{{ nodes | trainyard.swift.placement(hostvars, job | trainyard.swift.swift_run(nodes)) }}"
      plan_problems: "{{ {'node1': plan} | trainyard.swift.plan_problems(nodes) }}"
      picked_checkpoint: "{{ {'node1': plan, 'node2': plan} | trainyard.swift.picked_checkpoint(nodes) }}"
      job_summary: "{{ {'node1': answer, 'node2': answer} | trainyard.swift.job_summary(nodes) }}"
      prefix_lines: "{{ answer.jobs[0].output_tail | trainyard.swift.prefix_lines('[node1] ') }}"
  tasks:
    - name: Write what they return
      ansible.builtin.copy:
        content: "{{ found | to_json }}"
        dest: "{{ result }}"
        mode: "0600"
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all filters, from one run of ansible-playbook."""
    folder = tmp_path_factory.mktemp("filters")
    (folder / "hosts.yml").write_text(INVENTORY, encoding="utf-8")
    (folder / "ansible.cfg").write_text("", encoding="utf-8")
    (folder / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
    result = folder / "result.json"
    ansible_playbook = Path(sys.executable).with_name("ansible-playbook")
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    done = subprocess.run(
        [str(ansible_playbook), "-i", str(folder / "hosts.yml"), "-e", f"result={result}", str(folder / "play.yml")],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DEPRECATION" not in done.stderr
    read: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return read


def test_rank_map(found: dict[str, Any]) -> None:
    assert found["rank_map"] == {
        "nnodes": 2,
        "rank0": "node1",
        "nodes": [
            {"name": "node1", "rank": 0, "address": "10.0.0.1", "colocated": False},
            {"name": "node2", "rank": 1, "address": "10.0.0.2", "colocated": False},
        ],
        "ranks": {"node1": 0, "node2": 1},
        "problems": [],
    }


def test_rank_map_without_the_group(found: dict[str, Any]) -> None:
    assert "the group is missing or empty" in found["no_group"]["problems"][0]


def test_rank_map_with_a_broken_address(found: dict[str, Any]) -> None:
    (problem,) = found["one_bad"]["problems"]
    assert problem.startswith("node3: the variable ansible_host cannot be read:")
    assert "no_such_variable" in problem


def test_swift_run(found: dict[str, Any]) -> None:
    run = found["swift_run"]
    assert run["name"] == "demo"
    assert run["arguments"] == {"dataset": "/data/pt_*.jsonl", "lr": 1e-05, "model": "/data/m"}
    assert run["environment"] == {"NCCL_DEBUG": "INFO"}
    assert run["secret_names"] == ["WANDB_API_KEY"]
    assert run["nproc_per_node"] == 8
    assert run["problems"] == run["warnings"] == []


def test_placement(found: dict[str, Any]) -> None:
    assert found["placement"] == {
        "master_addr": "10.0.0.1",
        "nodes": {
            "node1": {
                "rank": 0,
                "cluster_ip": "10.0.0.1",
                "socket_interface": "eth0",
                "gpus": None,
                "colocated": False,
            },
            "node2": {
                "rank": 1,
                "cluster_ip": "10.0.0.2",
                "socket_interface": "eth0",
                "gpus": None,
                "colocated": False,
            },
        },
        "problems": [],
        "warnings": [],
    }


def test_plan_problems(found: dict[str, Any]) -> None:
    (problem,) = found["plan_problems"]
    assert problem.startswith("node2: it gave no plan.")


def test_picked_checkpoint(found: dict[str, Any]) -> None:
    assert found["picked_checkpoint"] == "/o/checkpoint-5"


def test_job_summary(found: dict[str, Any]) -> None:
    summary = found["job_summary"]
    assert (summary["state"], summary["step"], summary["steps"]) == ("running", 5, 10)
    assert summary["headline"] == "Job demo: running on 2 nodes, step 5 of 10."


def test_prefix_lines(found: dict[str, Any]) -> None:
    assert found["prefix_lines"] == ["[node1] one", "[node1] two"]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (job_summary, ([], {})),
        (picked_checkpoint, ([], {})),
        (placement, ({}, {}, {})),
        (plan_problems, ([], {})),
        (prefix_lines, (3, "")),
        (rank_map, ("node1", {})),
        (swift_run, ([], {})),
    ],
)
def test_misuse_is_an_error_of_the_filter(module: Any, arguments: tuple[Any, ...]) -> None:
    ((name, function),) = module.FilterModule().filters().items()
    with pytest.raises(AnsibleFilterError, match=f"^{name}: "):
        function(*arguments)


def test_a_filter_called_directly() -> None:
    assert rank_map.rank_map(["a"], {"a": {}})["ranks"] == {"a": 0}
