# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of reading pasted command lines."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _arguments
from ansible_collections.trainyard.swift.plugins.module_utils._command_line import (
    CommandLineError,
    ParsedCommand,
    join,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

SWIFT = r"""PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
NPROC_PER_NODE=8 \
OMP_NUM_THREADS=16 \
IMAGE_MAX_TOKEN_NUM=1280 \
swift pt \
    --tuner_type full \
    --ddp_backend nccl \
    --ddp_timeout 8640000 \
    --model /data/models/Qwen3-VL-8B-Thinking \
    --attn_impl flash_attn \
    --dataset /data/train_data/pt_*.jsonl \
    --dataset_num_proc 16 \
    --remove_unused_columns true \
    --max_length 20480 \
    --padding_free true \
    --output_dir /data/train_output/debug-qwen3-vl-8b-thinking-swift \
    --gradient_checkpointing true \
    --deepspeed zero1 \
    --per_device_train_batch_size 1 \
    --per_device_eval_batch_size 1 \
    --gradient_accumulation_steps 1 \
    --learning_rate 1e-5 \
    --report_to tensorboard \
    --logging_steps 1 \
    --num_train_epochs 1 \
    --save_steps 1000 \
    --save_total_limit 10 \
    --warmup_ratio 0.01 \
    --packing true \
    --save_only_model false \
    --dataloader_num_workers 64
"""

MEGATRON = r"""NCCL_IB_DISABLE=0 \
NCCL_IB_HCA=mlx5 \
NCCL_SOCKET_IFNAME=bond0 \
PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
NPROC_PER_NODE=8 \
OMP_NUM_THREADS=16 \
IMAGE_MAX_TOKEN_NUM=1280 \
megatron pt \
    --micro_batch_size 1 \
    --global_batch_size 4 \
    --recompute_granularity full \
    --recompute_method uniform \
    --recompute_num_layers 1 \
    --num_train_epochs 1 \
    --cross_entropy_loss_fusion true \
    --attention_backend flash \
    --optimizer adam \
    --optimizer_cpu_offload false \
    --seed 42 \
    --cached_dataset /data/train_data/pt/cached_pt_*/train \
    --load_from_cache_file true \
    --dataloader_num_workers 64 \
    --dataset_num_proc 16 \
    --max_length 20480 \
    --packing true \
    --group_by_length false \
    --lr 1e-5 \
    --lr_warmup_fraction 0.01 \
    --min_lr 1e-6 \
    --weight_decay 0.1 \
    --clip_grad 1.0 \
    --output_dir /data/train_output/debug-qwen3-vl-8b-thinking-megatron \
    --mcore_model /data/models/Qwen3-VL-8B-Thinking-mcore \
    --save_steps 10000 \
    --finetune true \
    --save_total_limit 10 \
    --ddp_backend nccl \
    --ddp_timeout 864000 \
    --use_distributed_optimizer true \
    --tensor_model_parallel_size 4 \
    --pipeline_model_parallel_size 1 \
    --sequence_parallel true \
    --context_parallel_size 1 \
    --overlap_grad_reduce true \
    --overlap_param_gather true \
    --report_to tensorboard \
    --logging_steps 1
"""


def test_the_seeds_swift_job() -> None:
    parsed = parse(SWIFT)
    assert (parsed.framework, parsed.command) == ("swift", "pt")
    assert parsed.environment == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "NPROC_PER_NODE": "8",
        "OMP_NUM_THREADS": "16",
        "IMAGE_MAX_TOKEN_NUM": "1280",
    }
    assert len(parsed.arguments) == SWIFT.count("--") == 26
    assert parsed.arguments["model"] == "/data/models/Qwen3-VL-8B-Thinking"
    assert parsed.arguments["learning_rate"] == "1e-5"
    assert parsed.arguments["dataloader_num_workers"] == "64"
    assert _arguments.globs(parsed.arguments) == ["/data/train_data/pt_*.jsonl"]
    assert _arguments.problems(parsed.arguments) == []


def test_the_seeds_megatron_job() -> None:
    parsed = parse(MEGATRON)
    assert (parsed.framework, parsed.command) == ("megatron", "pt")
    assert parsed.environment["NCCL_IB_HCA"] == "mlx5"
    assert len(parsed.environment) == 8
    assert len(parsed.arguments) == MEGATRON.count("--") == 39
    assert parsed.arguments["tensor_model_parallel_size"] == "4"
    assert parsed.arguments["min_lr"] == "1e-6"
    assert _arguments.globs(parsed.arguments) == ["/data/train_data/pt/cached_pt_*/train"]


@pytest.mark.parametrize(
    ("text", "environment", "arguments"),
    [
        ("swift pt", {}, {}),
        ("swift pt --packing", {}, {"packing": True}),
        ("swift pt --packing --model /m", {}, {"packing": True, "model": "/m"}),
        ("swift pt --dataset /a /b", {}, {"dataset": ["/a", "/b"]}),
        ("swift pt --lr=1e-5 --system=", {}, {"lr": "1e-5", "system": ""}),
        ("swift pt --eval_iters -1 --x -.5 -1e3", {}, {"eval_iters": "-1", "x": ["-.5", "-1e3"]}),
        ("swift pt --model_kwargs '{\"a\": 1}'", {}, {"model_kwargs": '{"a": 1}'}),
        ('swift pt --system "be \\"kind\\" & quick; $5"', {}, None),
        ('swift pt --system "be \\"kind\\" & quick; 5$"', {}, {"system": 'be "kind" & quick; 5$'}),
        ("swift pt --system 'a | b > c $HOME `x`'", {}, {"system": "a | b > c $HOME `x`"}),
        ("A= B='x y' C=a=b swift pt", {"A": "", "B": "x y", "C": "a=b"}, {}),
        ("A=1 A=2 swift pt", {"A": "2"}, {}),
        ("A=1\nB=2\nswift pt \\\n --model /m\n\n", {"A": "1", "B": "2"}, {"model": "/m"}),
        ("swift pt\n  --model /m\n  --lr 1", {}, {"model": "/m", "lr": "1"}),
        ("swift pt --model /m \\   \n  --lr 1 \\\r\n --x 2 \\", {}, {"model": "/m", "lr": "1", "x": "2"}),
        ("swift pt --dataset /a/b#100", {}, {"dataset": "/a/b#100"}),
        ("swift pt --dataset /a\\ b", {}, {"dataset": "/a b"}),
        ("swift pt --pattern a~b a$ 5$", {}, {"pattern": ["a~b", "a$", "5$"]}),
    ],
)
def test_parse(text: str, environment: dict[str, str], arguments: dict[str, Any] | None) -> None:
    if arguments is None:
        with pytest.raises(CommandLineError):
            parse(text)
        return
    assert parse(text) == ParsedCommand(environment, "swift", "pt", arguments)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("swift pt --x 1; rm -rf /", ["line 1, column 15", "';' is a second command", "Give one plain command"]),
        ("swift pt \\\n  --x 1 | tee log", ["line 2, column 9", "'|' is a pipe"]),
        ("swift pt --x 1 && swift pt", ["'&' is a background"]),
        ("swift pt --x 1 > log", ["'>' is a redirection"]),
        ("swift pt < x", ["'<' is a redirection"]),
        ("(swift pt)", ["'(' is a subshell"]),
        ("swift pt --x $(date)", ["'$' asks a shell to put something in", "Write the value itself"]),
        ("swift pt --x $HOME/m", ["'$' asks a shell"]),
        ('swift pt --x "${HOME}"', ["'$' asks a shell"]),
        ("swift pt --x `date`", ["'`' asks a shell"]),
        ('swift pt --x "`date`"', ["'`' asks a shell"]),
        ("swift pt --x ~/m", ["'~' is replaced by a shell only"]),
        ("swift pt --x {a,b}", ["'{' is not in quotes"]),
        ("swift pt --x 1 # note", ["'#' starts a comment"]),
        ("swift pt --x 'a", ["column 14", "the quote ' that opens here is never closed"]),
        ('swift pt --x "a', ['the quote " that opens here is never closed']),
        ("swift pt \u2013\u2013x 1", ["is a typographic character", "Type -- instead"]),
        ("swift pt --x \u201ca\u201d", ["is a typographic character"]),
        ("swift pt --x 1\nswift pt --x 2", ["line 1, column 15", "without a backslash"]),
        ("", ["it has no command"]),
        ("A=1 B=2", ["it has no command"]),
        ("sudo swift pt", ["cannot start with 'sudo'", "remove it"]),
        ("/usr/bin/sudo swift pt", ["cannot start with '/usr/bin/sudo'"]),
        ("nohup swift pt", ["The job is detached"]),
        ("export NNODES=4", ["without 'export'"]),
        ("python -m swift", ["begin with 'swift' or 'megatron'"]),
        ("torchrun x.py", ["swift starts torchrun by itself"]),
        ("docker run x", ["The container is started by the collection"]),
        ("/opt/venv/bin/swift pt", ["Write 'swift' and give the folder with train_bin_dir"]),
        ("swfit pt", ["cannot start with 'swfit'", "Begin with one of: swift, megatron."]),
        ("swift", ["has nothing after 'swift'", "Choose one of: pt, sft, rlhf, export."]),
        ("swift deploy --x 1", ["has 'deploy' after 'swift'"]),
        ("swift pt config.yaml", ["has 'config.yaml' before the first flag"]),
        ("swift pt -x 1", ["'-x', which is not a flag"]),
        ("swift pt --x 1 ---y", ["'---y', which is not a flag"]),
        ("swift pt --x 1 --x 2", ["gives --x twice"]),
    ],
)
def test_errors(text: str, parts: list[str]) -> None:
    with pytest.raises(CommandLineError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    for part in parts:
        assert part in problem


def test_join_quotes_what_needs_it() -> None:
    assert join({"A": "1 2", "B": "x"}, ["swift", "pt", "--x", "a b"]) == "A='1 2' B=x swift pt --x 'a b'"


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12).filter(
    lambda word: not word.startswith("-")
)
NAME = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
VALUE = st.one_of(WORD, st.lists(WORD, min_size=2, max_size=3))


@given(
    st.dictionaries(NAME.map(str.upper), WORD, max_size=3),
    st.sampled_from(["swift", "megatron"]),
    st.dictionaries(NAME, VALUE, max_size=4),
)
def test_what_is_rendered_can_be_read_again(
    environment: dict[str, str], framework: str, arguments: dict[str, Any]
) -> None:
    text = join(environment, [framework, "sft", *_arguments.render(arguments)])
    assert parse(text) == ParsedCommand(environment, framework, "sft", arguments)


@given(st.one_of(st.text(), st.text().map(lambda text: f"swift pt --x {text}")))
def test_garbage_is_read_or_refused_in_words(text: str) -> None:
    try:
        framework = parse(text).framework
    except CommandLineError:
        framework = "refused"
    assert framework in ("swift", "megatron", "refused")
