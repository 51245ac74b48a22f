# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs real nodes to go wrong: one clear message, nothing started anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml
from e2e.conftest import ROOT, Node, Run

pytestmark = pytest.mark.cluster

JOBS = "/var/lib/trainyard/jobs"
JOB = "e2e-bad"


@pytest.fixture(autouse=True)
def nothing_was_started(nodes: dict[str, Node]) -> Iterator[None]:
    yield
    for node in nodes.values():
        assert node.trainers() == []
        node.run(f"rm -rf {JOBS}/{JOB}")


def refused(run: Run, *words: str) -> str:
    text = run.messages()
    assert run.rc != 0, text
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in: {text}"
    return text


def test_a_taken_master_port_names_its_owner(play: Any, nodes: dict[str, Node]) -> None:
    nodes["node1"].run("setsid python3 -m http.server 29500 >/dev/null 2>&1 & sleep 1")
    try:
        refused(play("train.yml", train_job=JOB), "node1", "29500", "http.server", "train_master_port")
    finally:
        nodes["node1"].run("pkill -f '[h]ttp.server 29500'")


@pytest.mark.parametrize("address", ["10.77.0.12", "203.0.113.9"])
def test_a_master_address_that_rank_0_does_not_own(play: Any, address: str) -> None:
    refused(play("train.yml", train_job=JOB, train_master_addr=address), "node1", address, "train_master_addr")


def test_a_glob_that_matches_nothing(play: Any) -> None:
    run = play("train.yml", train_job=JOB, train_arguments_extra={"dataset": ["/data/nowhere/pt_*.jsonl"]})
    refused(run, "/data/nowhere/pt_*.jsonl", "node1", "node2")


def test_a_glob_that_differs_between_nodes(play: Any, nodes: dict[str, Node]) -> None:
    nodes["node1"].run(f"touch {JOBS}/own-1.jsonl {JOBS}/own-2.jsonl")
    nodes["node2"].run(f"touch {JOBS}/own-1.jsonl")
    try:
        run = play("train.yml", train_job=JOB, train_arguments_extra={"dataset": [f"{JOBS}/own-*.jsonl"]})
        refused(run, f"{JOBS}/own-*.jsonl", "own-2.jsonl", "node1", "node2")
    finally:
        for node in nodes.values():
            node.run(f"rm -f {JOBS}/own-*.jsonl")


def test_a_flag_of_another_version(play: Any) -> None:
    run = play("train.yml", train_job=JOB, train_arguments_extra={"train_type": "full", "tuner_type": None})
    refused(run, "train_type", "tuner_type", "4.6")


def test_an_unknown_flag_surfaces_as_the_trainers_own_error(play: Any, nodes: dict[str, Node]) -> None:
    run = play("train.yml", train_job=JOB, train_arguments_extra={"no_such_flag": 7})
    refused(run, "remaining_argv: ['--no_such_flag', '7']", "node1")


def test_a_container_that_is_missing(play: Any) -> None:
    """Only the launch, on nodes whose container has another name."""
    run = play("train.yml", train_job=JOB, train_container="trainyard-elsewhere")
    refused(run, "trainyard-elsewhere", "node1", "node2")


def test_unequal_processes_on_the_nodes(play: Any, tmp_path: Path, inventory: Path) -> None:
    changed = with_host_variable(tmp_path, inventory, "node2", {"train_nproc_per_node": 2})
    refused(play("train.yml", inventory=changed, train_job=JOB), "nproc_per_node", "not the same on all nodes")


def with_host_variable(tmp_path: Path, inventory: Path, host: str, variables: dict[str, Any]) -> Path:
    """A copy of the inventory in which one host has variables of its own."""
    copy = tmp_path / "inventory"
    copy.mkdir()
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text())
    hosts["swift_nodes"]["vars"]["local_cluster_dir"] = str(ROOT / ".cache/local_cluster")
    hosts["swift_nodes"]["hosts"][host].update(variables)
    (copy / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (copy / "group_vars").symlink_to(inventory / "group_vars")
    return copy


def test_a_node_that_is_unreachable_from_the_start(play: Any, tmp_path: Path, inventory: Path) -> None:
    changed = with_host_variable(
        tmp_path, inventory, "node2", {"ansible_host": "10.77.0.200", "ansible_ssh_timeout": 3}
    )
    run = play("train.yml", inventory=changed, train_job=JOB)
    refused(run, "node2", "10.77.0.200", "Nothing was started on any node")


def test_a_node_that_goes_away_between_two_phases(play: Any, nodes: dict[str, Node], tmp_path: Path) -> None:
    playbook = tmp_path / "vanish.yml"
    playbook.write_text(
        f"""---
- name: Validate and provision
  ansible.builtin.import_playbook: {ROOT}/playbooks/provision.yml
  vars:
    validate_job: true

- name: Lose a node
  hosts: node2
  gather_facts: false
  tasks:
    - name: Close its door
      ansible.builtin.command: >-
        systemd-run --on-active=1 --timer-property=AccuracySec=100ms
        nft add table inet gone '{{ chain in {{ type filter hook input priority 0; tcp dport 22 drop; }}; }}'
      become: true
      changed_when: true
    - name: Wait until it is gone
      ansible.builtin.pause:
        seconds: 3

- name: Train
  hosts: swift_nodes
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Launch
      ansible.builtin.include_role:
        name: trainyard.swift.train
        tasks_from: launch
      vars:
        train_hosts: "{{{{ groups['swift_nodes'] }}}}"
"""
    )
    container = f"{nodes['node2'].container}"
    try:
        run = play(str(playbook), train_job=JOB, ansible_ssh_timeout=5)
        refused(run, "node2", "Nothing was started on any node")
        assert JOB not in nodes["node1"].run(f"ls {JOBS}")
    finally:
        reopen(container)


def reopen(container: str) -> None:
    """The machine's own way into a node whose sshd is out of reach."""
    import docker

    client = docker.from_env()
    try:
        client.containers.get(container).exec_run(["nft", "delete", "table", "inet", "gone"])
    finally:
        client.close()


def test_a_wrong_sudo_password(play: Any, nodes: dict[str, Node], tmp_path: Path, inventory: Path) -> None:
    node = nodes["node2"]
    node.run(
        "id careful >/dev/null 2>&1 || useradd -m -s /bin/bash -G sudo careful; echo careful:right | chpasswd; "
        "mkdir -p ~careful/.ssh && cp ~trainer/.ssh/authorized_keys ~careful/.ssh/ && chown -R careful: ~careful/.ssh"
    )
    changed = with_host_variable(
        tmp_path, inventory, "node2", {"ansible_user": "careful", "ansible_become_password": "wrong"}
    )
    refused(
        play("train.yml", inventory=changed, train_job=JOB),
        "node2",
        "ansible_become_password",
        "Nothing was started on any node",
    )


def test_a_docker_that_does_not_answer(play: Any, nodes: dict[str, Node]) -> None:
    node = nodes["node2"]
    node.run("systemctl stop docker.socket docker.service && systemctl mask --runtime docker.socket docker.service")
    try:
        refused(play("train.yml", train_job=JOB), "node2", "Docker", "systemctl")
    finally:
        node.run(
            "systemctl unmask --runtime docker.socket docker.service && systemctl start docker.service && docker start trainyard"
        )
