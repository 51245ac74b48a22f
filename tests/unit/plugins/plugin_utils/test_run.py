# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of merging and checking a job."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse
from ansible_collections.trainyard.swift.plugins.plugin_utils._run import swift_run


def nodes(count: int = 2, colocated: bool = False) -> dict[str, Any]:
    entries = [
        {"name": f"node{i + 1}", "rank": i, "address": f"10.0.0.{i + 1}", "colocated": colocated} for i in range(count)
    ]
    return {
        "nnodes": count,
        "rank0": "node1" if count else "",
        "nodes": entries,
        "ranks": {entry["name"]: entry["rank"] for entry in entries},
        "problems": [],
    }


def run(rank_map: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    return swift_run({"job": "demo", **job}, rank_map or nodes())


#: What the role hands over when nothing but the name is given.
ROLE_DEFAULTS = {
    "framework": "swift",
    "command": "pt",
    "arguments": {},
    "arguments_extra": {},
    "environment": {},
    "secrets": [],
    "command_line": "",
    "runtime": "docker",
    "nproc_per_node": "",
    "master_addr": "",
    "master_port": 29500,
}


@pytest.mark.parametrize("job", [{}, ROLE_DEFAULTS, {key: None for key in ROLE_DEFAULTS}])
def test_defaults(job: dict[str, Any]) -> None:
    assert run(**job) == {
        "name": "demo",
        "framework": "swift",
        "command": "pt",
        "arguments": {},
        "environment": {},
        "secret_names": [],
        "runtime": "docker",
        "nproc_per_node": None,
        "master_addr": None,
        "master_port": 29500,
        "problems": [],
        "warnings": [],
    }


def test_command_line_and_variables() -> None:
    found = run(
        **{
            **ROLE_DEFAULTS,
            "command_line": "NCCL_DEBUG=INFO NPROC_PER_NODE=8 MASTER_PORT=29600 MASTER_ADDR=10.0.0.1 NNODES=2 A=1 "
            "megatron sft --model /m --lr 1e-5 --dataset /a /b --packing true",
            "arguments": {"lr": 1e-4, "save-steps": 5, "kwargs": {"a": [1, {"b": None}]}},
            "arguments_extra": {"packing": None, "save_steps": 7},
            "environment": {"A": 2, "B": None, "USE_HF": True},
        }
    )
    assert found == {
        "name": "demo",
        "framework": "megatron",
        "command": "sft",
        "arguments": {
            "model": "/m",
            "lr": 1e-4,
            "dataset": ["/a", "/b"],
            "save_steps": 7,
            "kwargs": {"a": [1, {"b": None}]},
        },
        "environment": {"NCCL_DEBUG": "INFO", "A": "2", "USE_HF": "true"},
        "secret_names": [],
        "runtime": "docker",
        "nproc_per_node": 8,
        "master_addr": "10.0.0.1",
        "master_port": 29600,
        "problems": [],
        "warnings": [],
    }


def test_variables_win_and_say_so() -> None:
    found = run(
        command_line="MASTER_PORT=29600 NPROC_PER_NODE=8 swift pt --model /m",
        framework="megatron",
        command="sft",
        master_port=29700,
        nproc_per_node="4",
    )
    assert (found["framework"], found["command"]) == ("megatron", "sft")
    assert (found["master_port"], found["nproc_per_node"]) == (29700, 4)
    assert found["problems"] == []
    assert [warning.partition(" ")[0] for warning in sorted(found["warnings"])] == [
        "train_command",
        "train_framework",
        "train_master_port",
        "train_nproc_per_node",
    ]


def test_equal_values_are_no_reason_to_warn() -> None:
    found = run(command_line="NPROC_PER_NODE=8 megatron pt", framework="megatron", nproc_per_node=8)
    assert found["warnings"] == []


@pytest.mark.parametrize("name", ["Bad", "a_b", "../x", "-a", "a" * 64])
def test_bad_job_name(name: str) -> None:
    (problem,) = run(job=name)["problems"]
    assert problem.startswith(f"train_job: The job name {name!r} cannot be used")


@pytest.mark.parametrize("name", [None, "", "  "])
def test_no_job_name(name: Any) -> None:
    assert run(job=name)["problems"] == [
        "train_job is not set. Give the job a name, such as 'qwen3-vl-8b', in the job's file or the inventory. "
        "A file is given with -e and an @: -e @job.yml."
    ]


@pytest.mark.parametrize(
    ("job", "part"),
    [
        ({"framework": "torch"}, "Unknown train_framework 'torch'. Choose one of: swift, megatron."),
        ({"command": "deploy"}, "Unknown train_command 'deploy'."),
        ({"runtime": "podman"}, "Unknown train_runtime 'podman'."),
        ({"command": "export"}, "'swift export' does not work together across nodes"),
        ({"command_line": "swift pt; ls"}, "train_command_line: The command line cannot be read: line 1, column 9"),
        ({"command_line": ["swift"]}, "train_command_line is a list."),
        (
            {"command_line": "NODE_RANK=1 swift pt"},
            "train_command_line: NODE_RANK cannot be given: ranks come from the order of the inventory",
        ),
        ({"environment": {"NNODES": 3}}, "NNODES is 3, but the inventory has 2 nodes in swift_nodes."),
        ({"environment": {"NODE_RANK": 0}}, "train_environment: NODE_RANK cannot be given"),
        ({"environment": {"WORLD_SIZE": 2}}, "WORLD_SIZE cannot be given: it follows from"),
        ({"environment": {"PET_RDZV_BACKEND": "c10d"}}, "PET_RDZV_BACKEND cannot be given"),
        ({"environment": {"PET_STANDALONE": 1}}, "PET_STANDALONE cannot be given: each node would train alone"),
        ({"environment": {"nproc_per_node": 8}}, "'nproc_per_node' is not known and would have no effect"),
        ({"environment": {"nccl_debug": "INFO"}}, "Write 'NCCL_DEBUG'"),
        ({"environment": {"NCCL_IB_HCAS": "mlx5"}}, "Write 'NCCL_IB_HCA'"),
        ({"environment": {"A=B": "x"}}, "The environment variable name 'A=B' cannot be used"),
        ({"environment": {"A": ["x"]}}, "train_environment: A is a list. Give text or a number."),
        ({"environment": {"A": {"x": 1}}}, "A is a mapping."),
        ({"environment": {"A": object()}}, "A is of the type object."),
        (
            {"environment": {"NCCL_IB_DISABLE": True}},
            "NCCL_IB_DISABLE is true, but this library reads numbers. Write 1 instead.",
        ),
        ({"environment": "A=1"}, "train_environment is text. Give a mapping"),
        ({"arguments": ["--model"]}, "train_arguments is a list. Give a mapping"),
        ({"arguments_extra": True}, "train_arguments_extra is a boolean. Give a mapping"),
        ({"arguments": {"--model": "/m"}}, "train_arguments: The argument '--model' starts with dashes"),
        ({"arguments": {"a b": "/m"}}, "'a b' is not a flag name"),
        ({"arguments": {"lora-rank": 8, "lora_rank": 16}}, "'lora-rank' and 'lora_rank' are one and the same flag"),
        ({"command_line": "swift pt --lora-rank 8 --lora_rank 16"}, "gives --lora_rank twice"),
        ({"secrets": {"NODE_RANK": "x"}}, "train_secrets: NODE_RANK is not a secret"),
        ({"secrets": {"PET_NNODES": "x"}}, "train_secrets: PET_NNODES is not a secret"),
        ({"arguments": {"a": [[1]]}}, "has a list inside its list"),
        ({"secrets": "not a mapping"}, "train_secrets is not a mapping."),
        ({"secrets": {"MASTER_ADDR": "x"}}, "train_secrets: MASTER_ADDR is not a secret"),
        ({"secrets": {"wandb_api_key": "x"}}, "train_secrets: The environment variable 'wandb_api_key' is not known"),
        (
            {"secrets": ["MY_KEY"], "environment": {"MY_KEY": "x"}},
            "MY_KEY is in train_secrets and in train_environment",
        ),
        ({"nproc_per_node": 0}, "train_nproc_per_node is 0."),
        ({"nproc_per_node": "gpu"}, "train_nproc_per_node is 'gpu'."),
        ({"nproc_per_node": True}, "train_nproc_per_node is True."),
        ({"environment": {"NPROC_PER_NODE": "auto"}}, "train_nproc_per_node is 'auto'."),
        ({"master_port": 80}, "train_master_port: The master port 80 cannot be used."),
        ({"master_port": "http"}, "train_master_port: The master port 'http' cannot be used."),
        ({"environment": {"MASTER_PORT": 70000}}, "The master port 70000"),
        ({"master_addr": "10.0.0.1 -x"}, "train_master_addr is '10.0.0.1 -x', which is neither"),
        *(
            ({"master_addr": address}, f"train_master_addr is {address}, by which every node means itself")
            for address in (
                "localhost",
                "127.0.0.1",
                "127.1.2.3",
                "0.0.0.0",
                "::1",
                "::",
                "LOCALHOST.",
                "localhost.localdomain",
            )
        ),
    ],
)
def test_problems(job: dict[str, Any], part: str) -> None:
    found = run(**job)
    (problem,) = found["problems"]
    assert part in problem


def test_loopback_master_remedy_names_rank_0() -> None:
    (problem,) = run(command_line="MASTER_ADDR=127.0.0.1 swift pt")["problems"]
    assert "Give an address of node1 (rank 0) that all nodes reach, or give neither it nor MASTER_ADDR." in problem


@pytest.mark.parametrize("rank_map", [nodes(2, colocated=True), nodes(1)])
def test_loopback_master_on_one_machine(rank_map: dict[str, Any]) -> None:
    found = run(rank_map, master_addr="127.0.0.1")
    assert (found["master_addr"], found["problems"]) == ("127.0.0.1", [])


def test_host_name_as_master() -> None:
    assert run(master_addr="gpu7.cluster")["problems"] == []


@pytest.mark.parametrize(("framework", "count"), [("swift", 1), ("megatron", 2)])
def test_export_where_it_works(framework: str, count: int) -> None:
    assert run(nodes(count), framework=framework, command="export")["problems"] == []


@pytest.mark.parametrize(
    ("job", "part"),
    [
        ({"environment": {"HF_TOKEN": "x"}}, "'HF_TOKEN' looks like a secret. Give it in train_secrets"),
        ({"environment": {"WANDB_API_KEY": "x"}}, "looks like a secret"),
        ({"arguments": {"hub_token": "x"}}, "The argument 'hub_token' looks like a secret"),
        ({"environment": {"NCCL_SOCKET_IFNAME": "^docker0"}}, "Write ^docker0,lo"),
    ],
)
def test_warnings(job: dict[str, Any], part: str) -> None:
    found = run(**job)
    (warning,) = found["warnings"]
    assert part in warning
    assert found["problems"] == []


def test_values_of_secrets_are_never_read() -> None:
    class Vault(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise AssertionError("a secret was read")

    found = run(secrets=Vault(WANDB_API_KEY="s3cret", HF_TOKEN="s3cret"))
    assert found["secret_names"] == ["HF_TOKEN", "WANDB_API_KEY"]
    assert "s3cret" not in str(found)


def test_all_problems_at_once() -> None:
    found = run(
        job="Bad",
        framework="x",
        command="y",
        runtime="z",
        master_port=1,
        nproc_per_node=-1,
        environment={"NODE_RANK": 1},
    )
    assert len(found["problems"]) == 7


@pytest.mark.parametrize(("job", "rank_map"), [([], nodes()), ({}, {}), ({}, None), ("x", nodes())])
def test_misuse(job: Any, rank_map: Any) -> None:
    with pytest.raises(Misuse):
        swift_run(job, rank_map)
