# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of job specifications."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _job
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._job import JobSpec

SPEC = JobSpec(
    name="qwen3",
    arguments={"model": "/m", "save_steps": 1000, "packing": True},
    environment={"NCCL_DEBUG": "INFO"},
    secret_names=("WANDB_API_KEY",),
    nnodes=2,
    node_rank=1,
    nproc_per_node=8,
    gpus=(0, 1, 2, 3, 4, 5, 6, 7),
)


def test_digest_is_stable() -> None:
    assert SPEC.digest() == replace(SPEC).digest()
    assert len(SPEC.digest()) == 64


@pytest.mark.parametrize(
    "same",
    [
        {"arguments": {"packing": "true", "save_steps": "1000", "model": "/m", "gone": None}},
        {"environment": {"NCCL_DEBUG": "INFO", "GONE": None}},
        {"jobs_dir": "/elsewhere"},
        {"gpus": [0, 1, 2, 3, 4, 5, 6, 7]},
    ],
)
def test_digest_ignores_what_changes_nothing(same: dict[str, Any]) -> None:
    assert replace(SPEC, **same).digest() == SPEC.digest()


@pytest.mark.parametrize(
    "other",
    [
        {"name": "other"},
        {"framework": "megatron"},
        {"command": "sft"},
        {"arguments": {"model": "/m2"}},
        {"environment": {}},
        {"secret_names": ()},
        {"nnodes": 3},
        {"node_rank": 0},
        {"nproc_per_node": 4},
        {"master_addr": "10.0.0.1"},
        {"master_port": 29501},
        {"gpus": None},
        {"socket_interface": "bond0"},
        {"runtime": "host"},
        {"container": "other"},
        {"bin_dir": "/opt/venv/bin"},
        {"colocated": True},
    ],
)
def test_digest_tells_everything_else_apart(other: dict[str, Any]) -> None:
    assert replace(SPEC, **other).digest() != SPEC.digest()


def test_container_does_not_matter_on_the_host() -> None:
    host = replace(SPEC, runtime="host")
    assert replace(host, container="other").digest() == host.digest()


def test_as_dict_is_plain_data() -> None:
    data = SPEC.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["arguments"] == {"model": ["/m"], "save_steps": ["1000"], "packing": ["true"]}


def test_differences() -> None:
    old = SPEC.as_dict()
    new = replace(
        SPEC, arguments={"model": "/m", "save_steps": 500, "lr": 1e-5}, master_port=29501, jobs_dir="/x"
    ).as_dict()
    assert _job.differences(old, new) == [
        {"key": "arguments.lr", "before": None, "after": ["1e-05"]},
        {"key": "arguments.packing", "before": ["true"], "after": None},
        {"key": "arguments.save_steps", "before": ["1000"], "after": ["500"]},
        {"key": "master_port", "before": 29500, "after": 29501},
    ]
    assert _job.differences(old, old) == []


@pytest.mark.parametrize(("framework", "nnodes", "rank"), [("swift", 4, 0), ("megatron", 4, 3), ("megatron", 1, 0)])
def test_logging_rank(framework: str, nnodes: int, rank: int) -> None:
    assert _job.logging_rank(framework, nnodes) == rank


@pytest.mark.parametrize("name", ["a", "0", "qwen3-vl-8b", "a" * 63, "a-"])
def test_good_names(name: str) -> None:
    assert _job.name_problem(name) is None


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a.b", "a/b", "../a", "a" * 64, "a\n", "ä", None, 7])
def test_bad_names(name: Any) -> None:
    assert "cannot be used" in str(_job.name_problem(name))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"name": "Bad Name"}, "The job name 'Bad Name' cannot be used"),
        ({"framework": "torch"}, "Unknown framework 'torch'. Choose one of: swift, megatron."),
        ({"command": "deploy"}, "Unknown command 'deploy'. Choose one of: pt, sft, rlhf, export."),
        ({"runtime": "podman"}, "Unknown runtime 'podman'"),
        ({"command": "export"}, "'swift export' does not work together across nodes"),
        ({"nnodes": 0, "node_rank": 0}, "nnodes is 0"),
        ({"node_rank": 2}, "node_rank is 2, but with nnodes 2 the ranks are 0 to 1"),
        ({"node_rank": -1}, "node_rank is -1"),
        ({"nproc_per_node": 0}, "nproc_per_node is 0"),
        ({"master_port": 80}, "The master port 80 cannot be used"),
        ({"master_port": 65536}, "The master port 65536"),
        ({"master_port": True}, "The master port True"),
        ({"gpus": [0, 0], "nproc_per_node": None}, "gpus is [0, 0]: give each GPU index once"),
        ({"gpus": [-1], "nproc_per_node": None}, "gpus is [-1]"),
        ({"gpus": [0, 1]}, "nproc_per_node is 8, but gpus lists only 2"),
        (
            {"environment": {"CUDA_VISIBLE_DEVICES": "0,1,"}},
            "nproc_per_node is 8, but CUDA_VISIBLE_DEVICES in the environment names only 2 (0,1,)",
        ),
        ({"arguments": {"--model": "/m"}}, "starts with dashes"),
    ],
)
def test_problems(change: dict[str, Any], part: str) -> None:
    (problem,) = _job.problems(replace(SPEC, **change))
    assert part in problem


@pytest.mark.parametrize(
    "change", [{}, {"nproc_per_node": None, "gpus": None}, {"gpus": []}, {"framework": "megatron", "command": "export"}]
)
def test_no_problems(change: dict[str, Any]) -> None:
    assert _job.problems(replace(SPEC, **change)) == []


def test_all_problems_at_once() -> None:
    assert len(_job.problems(JobSpec(name="", framework="x", command="y", runtime="z", master_port=1))) == 5


def test_error() -> None:
    assert SwiftError("one").problems == ["one"]
    error = SwiftError(["one", "two"], {"rc": 1})
    assert (str(error), error.problems, error.details) == ("one\ntwo", ["one", "two"], {"rc": 1})
