# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input is refused before any host is touched: these nodes do not exist, so that touching one would show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from playbooks import Run, run, write_inventory

NODES: dict[str, dict[str, Any]] = {
    "node1": {"ansible_host": "192.0.2.1"},
    "node2": {"ansible_host": "192.0.2.2"},
}
JOB: dict[str, Any] = {"train_job": "tiny", "train_arguments": {"model": "/data/model"}}


def refused(result: Run, *sentences: str) -> None:
    """The run has ended with exactly one message, which has all of these sentences, and touched no host."""
    assert result.code != 0, result.output
    assert result.output.count("fatal: [") == 1, result.output
    assert "UNREACHABLE" not in result.output
    for sentence in sentences:
        assert sentence in result.said, result.output


def test_good_input_passes_without_any_host(tmp_path: Path) -> None:
    result = run("validate.yml", write_inventory(tmp_path, NODES), extra=JOB)
    assert result.code == 0, result.output
    for name in NODES:
        assert f"- {name} at " in result.output


def test_misspelt_variable_is_told(tmp_path: Path) -> None:
    strange = {"train_enviroment": {}, "docker_engine_proxy": "", "modelscope_container_volume": "/data"}
    result = run("validate.yml", write_inventory(tmp_path, NODES), extra={**JOB, **strange})
    assert result.code == 0, result.output
    said = " ".join(result.output.split())
    for name in strange:
        assert f"{name} is not a variable of these roles" in said
    assert "train_arguments is not" not in said


@pytest.mark.parametrize("playbook", ["validate.yml", "train.yml", "status.yml"])
def test_group_is_missing(tmp_path: Path, playbook: str) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("other: {hosts: {node1: {ansible_host: 192.0.2.1}}}\n")
    refused(run(playbook, inventory, extra=JOB), "The inventory has no host in the group swift_nodes")


def test_group_is_empty(tmp_path: Path) -> None:
    refused(run("validate.yml", write_inventory(tmp_path, {})), "The inventory has no host in the group swift_nodes")


def test_limit_leaves_nodes_out(tmp_path: Path) -> None:
    result = run("train.yml", write_inventory(tmp_path, NODES), "--limit", "node2", extra=JOB)
    refused(result, "node1: left out of this run, by --limit", "Run again without --limit")


def test_limit_leaves_all_nodes_out(tmp_path: Path) -> None:
    inventory = write_inventory(tmp_path, NODES)
    data = yaml.safe_load(inventory.read_text())
    inventory.write_text(yaml.safe_dump({**data, "other": {"hosts": {"login": {"ansible_host": "192.0.2.9"}}}}))
    result = run("train.yml", inventory, "--limit", "login", extra=JOB)
    refused(result, "--limit leaves out all nodes of the group swift_nodes (node1, node2)")


def test_serial_would_start_one_after_the_other(tmp_path: Path) -> None:
    playbook = tmp_path / "serial.yml"
    play = {
        "hosts": "swift_nodes",
        "gather_facts": False,
        "serial": 1,
        "tasks": [{"ansible.builtin.include_role": {"name": "trainyard.swift.train", "tasks_from": "validate"}}],
    }
    playbook.write_text(yaml.safe_dump([play]))
    result = run(playbook, write_inventory(tmp_path, NODES), extra=JOB)
    refused(result, "node2: not in this batch of the play", "Remove serial from the play")


def test_inventory_lost_nodes_on_the_way(tmp_path: Path) -> None:
    result = run("validate.yml", write_inventory(tmp_path, NODES), extra={**JOB, "train_expected_nodes": 4})
    refused(result, "The inventory has 2 nodes (node1, node2), train_expected_nodes says 4")


def test_inventory_that_cannot_be_read_in_full(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("[swift_nodes]\nnode1 ansible_host=192.0.2.1\nnode[2:1 ansible_host=192.0.2.2\n")
    result = run("validate.yml", inventory, extra=JOB)
    assert result.code != 0
    assert "hosts.ini" in result.output


RANKS = [
    (
        {"node1": {"ansible_host": "192.0.2.1"}, "node2": {"ansible_host": "192.0.2.1"}},
        "node1 and node2 are one machine: both are reached at 192.0.2.1",
    ),
    (
        {name: {**NODES[name], "swift_node_rank": 0} for name in NODES},
        "node1 and node2: all have swift_node_rank 0",
    ),
    (
        {"node1": {**NODES["node1"], "swift_node_rank": 0}, "node2": {**NODES["node2"], "swift_node_rank": 2}},
        "swift_node_rank leaves a gap",
    ),
    (
        {"node1": {**NODES["node1"], "swift_node_rank": "first"}, "node2": {**NODES["node2"], "swift_node_rank": 1}},
        "node1: swift_node_rank is 'first'",
    ),
    ({"node1": {**NODES["node1"], "swift_node_rank": 0}, "node2": NODES["node2"]}, "node2: no swift_node_rank"),
]


@pytest.mark.parametrize(("hosts", "sentence"), RANKS)
def test_ranks(tmp_path: Path, hosts: dict[str, dict[str, Any]], sentence: str) -> None:
    refused(run("validate.yml", write_inventory(tmp_path, hosts), extra=JOB), sentence)


def test_all_problems_of_a_job_at_once(tmp_path: Path) -> None:
    hosts = {"node1": {**NODES["node1"], "swift_node_rank": 1}, "node2": {**NODES["node2"], "swift_node_rank": 1}}
    job = {
        "train_job": "Bad_Name",
        "train_framework": "deepspeed",
        "train_command": "pretrain",
        "train_environment": {"nccl_debug": "INFO", "nproc_per_node": 8, "NODE_RANK": 1, "WANDB_API_KEY": "x"},
        "train_secrets": {"WANDB_API_KEY": "hidden-value"},
        "train_master_addr": "127.0.0.1",
        "train_master_port": "many",
        "train_nproc_per_node": 0,
        "train_expected_nodes": 3,
    }
    result = run("train.yml", write_inventory(tmp_path, hosts), extra=job)
    refused(
        result,
        "node1 and node2: all have swift_node_rank 1",
        "train_expected_nodes says 3",
        "The job name 'Bad_Name' cannot be used",
        "Unknown train_framework 'deepspeed'. Choose one of: swift, megatron.",
        "Unknown train_command 'pretrain'",
        "Write 'NCCL_DEBUG'",
        "Write 'NPROC_PER_NODE'",
        "NODE_RANK cannot be given",
        "WANDB_API_KEY is in train_secrets and in train_environment",
        "train_master_addr is 127.0.0.1, by which every node means itself",
        "The master port 'many' cannot be used",
        "train_nproc_per_node is 0",
    )
    assert "hidden-value" not in result.output


def test_export_is_for_one_node(tmp_path: Path) -> None:
    result = run("validate.yml", write_inventory(tmp_path, NODES), extra={**JOB, "train_command": "export"})
    refused(result, "'swift export' does not work together across nodes", "Run it on one node")


def test_job_is_not_named(tmp_path: Path) -> None:
    refused(run("validate.yml", write_inventory(tmp_path, NODES)), "train_job is not set")


def test_processes_differ_between_nodes(tmp_path: Path) -> None:
    hosts = {"node1": NODES["node1"], "node2": {**NODES["node2"], "train_nproc_per_node": 4}}
    result = run("validate.yml", write_inventory(tmp_path, hosts, **JOB, train_nproc_per_node=8))
    refused(result, "train_nproc_per_node is not the same on all nodes")


def test_interfaces_may_differ_between_nodes(tmp_path: Path) -> None:
    hosts = {
        name: {**variables, "train_environment": {"NCCL_SOCKET_IFNAME": f"=eth{number}"}}
        for number, (name, variables) in enumerate(NODES.items())
    }
    result = run("validate.yml", write_inventory(tmp_path, hosts, **JOB))
    assert result.code == 0, result.output


def test_pasted_command_line_is_no_shell(tmp_path: Path) -> None:
    job = {"train_job": "tiny", "train_command_line": "swift pt --model /data/m && echo done"}
    refused(run("validate.yml", write_inventory(tmp_path, NODES), extra=job), "train_command_line: ", "needs a shell")


def test_secrets_that_are_no_mapping_are_not_shown(tmp_path: Path) -> None:
    result = run("validate.yml", write_inventory(tmp_path, NODES), extra={**JOB, "train_secrets": "hidden-value"})
    refused(result, "train_secrets is not a mapping")
    assert "hidden-value" not in result.output


def test_start_in_the_middle_starts_nothing(tmp_path: Path) -> None:
    hosts = {name: {"ansible_connection": "local", "swift_colocated": True} for name in NODES}
    inventory = write_inventory(tmp_path, hosts, **JOB, train_runtime="host", train_jobs_dir=str(tmp_path / "jobs"))
    playbook = tmp_path / "launch.yml"
    role = {"ansible.builtin.import_role": {"name": "trainyard.swift.train", "tasks_from": "launch"}}
    play = {"hosts": "swift_nodes", "gather_facts": False, "any_errors_fatal": True, "tasks": [role]}
    playbook.write_text(yaml.safe_dump([play]))
    result = run(playbook, inventory, "--start-at-task", "plan | Ask every node what it would do")
    assert result.code != 0
    assert "Run the playbook from its beginning, without --start-at-task" in result.flat
    assert not (tmp_path / "jobs").exists()
