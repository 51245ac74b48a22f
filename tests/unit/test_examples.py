# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example jobs give the command lines that they stand for, and are valid for the image that they pin."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainyard.swift.plugins.module_utils import _arguments, _dialect
from ansible_collections.trainyard.swift.plugins.plugin_utils import _rank_map, _run

EXAMPLE = Path(__file__).parents[2] / "examples" / "h200-infiniband"
IMAGE_VERSION = "4.1.2"

SWIFT = """
    --tuner_type full --ddp_backend nccl --ddp_timeout 8640000 --model /data/models/Qwen3-VL-8B-Thinking
    --attn_impl flash_attn --dataset /data/train_data/pt_*.jsonl --dataset_num_proc 16 --remove_unused_columns true
    --max_length 20480 --padding_free true --output_dir /data/train_output/debug-qwen3-vl-8b-thinking-swift
    --gradient_checkpointing true --deepspeed zero1 --per_device_train_batch_size 1 --per_device_eval_batch_size 1
    --gradient_accumulation_steps 1 --learning_rate 1e-5 --report_to tensorboard --logging_steps 1
    --num_train_epochs 1 --save_steps 1000 --save_total_limit 10 --warmup_ratio 0.01 --packing true
    --save_only_model false --dataloader_num_workers 64
"""
MEGATRON = """
    --micro_batch_size 1 --global_batch_size 4 --recompute_granularity full --recompute_method uniform
    --recompute_num_layers 1 --num_train_epochs 1 --cross_entropy_loss_fusion true --attention_backend flash
    --optimizer adam --optimizer_cpu_offload false --seed 42 --cached_dataset /data/train_data/pt/cached_pt_*/train
    --load_from_cache_file true --dataloader_num_workers 64 --dataset_num_proc 16 --max_length 20480 --packing true
    --group_by_length false --lr 1e-5 --lr_warmup_fraction 0.01 --min_lr 1e-6 --weight_decay 0.1 --clip_grad 1.0
    --output_dir /data/train_output/debug-qwen3-vl-8b-thinking-megatron
    --mcore_model /data/models/Qwen3-VL-8B-Thinking-mcore --save_steps 10000 --finetune true --save_total_limit 10
    --ddp_backend nccl --ddp_timeout 864000 --use_distributed_optimizer true --tensor_model_parallel_size 4
    --pipeline_model_parallel_size 1 --sequence_parallel true --context_parallel_size 1 --overlap_grad_reduce true
    --overlap_param_gather true --report_to tensorboard --logging_steps 1
"""
ENVIRONMENT = {
    "NCCL_IB_DISABLE": "0",
    "NCCL_IB_HCA": "mlx5",
    "NCCL_SOCKET_IFNAME": "=bond0",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "OMP_NUM_THREADS": "16",
    "IMAGE_MAX_TOKEN_NUM": "1280",
}
JOBS = {
    "swift": ("inventory/hosts.yml", SWIFT, {**ENVIRONMENT, "NCCL_DEBUG": "INFO"}),
    "megatron": ("inventory-two-nodes/hosts.yml", MEGATRON, ENVIRONMENT),
}


def load(name: str) -> Any:
    return yaml.safe_load((EXAMPLE / name).read_text())


def ranked(name: str) -> dict[str, Any]:
    hosts = load(name)["swift_nodes"]["hosts"]
    return _rank_map.rank_map(list(hosts), hosts)


def run_of(framework: str) -> dict[str, Any]:
    inventory, _flags, _environment = JOBS[framework]
    variables = load(f"job-{framework}.yml")
    job = {key.removeprefix("train_"): value for key, value in variables.items()}
    return _run.swift_run(job, ranked(inventory))


def test_nodes_have_the_ranks_of_their_addresses() -> None:
    found = ranked("inventory/hosts.yml")
    assert found["problems"] == []
    assert [(node["rank"], node["address"]) for node in found["nodes"]] == [
        (0, "10.112.36.7"),
        (1, "10.112.36.8"),
        (2, "10.112.36.9"),
        (3, "10.112.36.10"),
    ]
    assert load("inventory-two-nodes/hosts.yml")["swift_nodes"]["hosts"] == dict(
        list(load("inventory/hosts.yml")["swift_nodes"]["hosts"].items())[:2]
    )


@pytest.mark.parametrize("framework", JOBS)
def test_job_is_accepted(framework: str) -> None:
    run = run_of(framework)
    assert run["problems"] == []
    assert (run["framework"], run["command"]) == (framework, "pt")
    assert (run["nproc_per_node"], run["master_port"]) == (8, 29500)


@pytest.mark.parametrize("framework", JOBS)
def test_job_gives_every_flag(framework: str) -> None:
    assert _arguments.render(run_of(framework)["arguments"]) == shlex.split(JOBS[framework][1])


@pytest.mark.parametrize("framework", JOBS)
def test_job_gives_the_environment(framework: str) -> None:
    assert run_of(framework)["environment"] == JOBS[framework][2]


@pytest.mark.parametrize("framework", JOBS)
def test_flags_are_those_of_the_image(framework: str) -> None:
    image = load("inventory/group_vars/swift_nodes/modelscope_container.yml")["modelscope_container_image"]
    assert f"-swift{IMAGE_VERSION}'" in image
    assert _dialect.flag_problems(framework, run_of(framework)["arguments"], IMAGE_VERSION) == []


@pytest.mark.parametrize("framework", JOBS)
def test_same_job_can_be_pasted(framework: str) -> None:
    inventory, flags, environment = JOBS[framework]
    pasted = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    line = f"{pasted} CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 {framework} pt {' '.join(flags.split())}"
    run = _run.swift_run({"job": "pasted", "command_line": line}, ranked(inventory))
    assert run["problems"] == []
    assert _arguments.render(run["arguments"]) == _arguments.render(run_of(framework)["arguments"])
    assert run["nproc_per_node"] == 8


def test_megatron_batch_fits_the_nodes_that_it_runs_on() -> None:
    arguments = run_of("megatron")["arguments"]
    world = 8 * ranked("inventory-two-nodes/hosts.yml")["nnodes"]
    data_parallel = world // arguments["tensor_model_parallel_size"]
    assert arguments["global_batch_size"] % (arguments["micro_batch_size"] * data_parallel) == 0
