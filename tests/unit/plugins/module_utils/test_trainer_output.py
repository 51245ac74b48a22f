# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is read from the trainer's output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils._trainer_output import TrainerOutput, parse
from hypothesis import given
from hypothesis import strategies as st

FIXTURES = Path(__file__).parents[2] / "fixtures" / "trainer_output"
OUT = "/data/out/v0-20261130"


def captured(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8").replace("\u240d", "\r")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "swift-pt-cpu.node0.log",
            {
                "world_size": 2,
                "step": 10,
                "steps": 10,
                "loss": 6.002,
                "s_per_it": 0.02169,
                "elapsed": "0s",
                "remaining": "0s",
                "memory_gib": None,
                "samples_per_s": 183.8,
                "global_batch": 4,
                "mean_tokens": 16.45,
                "checkpoint": f"{OUT}-020216/checkpoint-10",
                "output_dir": f"{OUT}-020216",
                "ended": True,
                "error": None,
                "signal": None,
            },
            id="rank 0 on CPUs",
        ),
        pytest.param(
            "swift-pt-cpu.node1.log",
            {
                "world_size": 2,
                "step": None,
                "loss": None,
                "checkpoint": f"{OUT}-020216/checkpoint-10",
                "ended": True,
            },
            id="rank 1 on CPUs logs no step",
        ),
        pytest.param(
            "swift-pt-gpu.node0.log",
            {"world_size": 2, "step": 50, "steps": 50, "loss": 4.028, "memory_gib": 0.07, "samples_per_s": 30.85},
            id="rank 0 on GPUs",
        ),
        pytest.param("swift-pt-gpu.node1.log", {"world_size": 2, "step": None, "ended": True}, id="rank 1 on GPUs"),
        pytest.param(
            "megatron-pt-gpu.node0.log",
            {"world_size": 2, "step": None, "loss": None, "checkpoint": f"{OUT}-032636/checkpoint-60", "ended": True},
            id="megatron rank 0 saves and logs no step",
        ),
        pytest.param(
            "megatron-pt-gpu.node1.log",
            {
                "world_size": 2,
                "step": 60,
                "steps": 60,
                "loss": 2.63303924,
                "s_per_it": 0.675446,
                "elapsed": "41s",
                "memory_gib": 0.25,
                "global_batch": 4,
                "mean_tokens": 88.670833,
                "checkpoint": f"{OUT}-032636/checkpoint-60",
                "output_dir": f"{OUT}-032636",
                "ended": True,
            },
            id="megatron last rank",
        ),
        pytest.param(
            "megatron-pt-error.log",
            {
                "step": 0,
                "steps": 4,
                "ended": False,
                "signal": None,
                "error": "ValueError: No dot product attention backend is available for the provided inputs. "
                "Please run with NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 to find out the reasons for disabling all backends.",
            },
            id="an exception of the trainer before torchrun's own",
        ),
        pytest.param(
            "swift-pt-cpu-killed.node0.log",
            {
                "world_size": 2,
                "signal": 9,
                "error": "The training process of local rank 0 was ended by signal 9 (SIGKILL)",
                "ended": False,
            },
            id="a killed rank",
        ),
        pytest.param(
            "swift-pt-cpu-killed.node1.log",
            {"world_size": 2, "signal": 15, "error": "The trainer was stopped by signal 15 (SIGTERM).", "ended": False},
            id="torchrun was stopped",
        ),
        pytest.param(
            "swift-export.log",
            {"world_size": 1, "step": None, "checkpoint": "/data/runs/mcore_sw", "ended": True, "error": None},
            id="export",
        ),
    ],
)
def test_captured_output(name: str, expected: dict[str, Any]) -> None:
    found = parse(captured(name)).as_dict()
    assert {key: found[key] for key in expected} == expected


STEP = "{'loss': '5.801', 'epoch': '0.04', 'global_step/max_steps': '1/25', 'train_speed(s/it)': '0.09124'}"
PLAIN = "{'loss': 1.5, 'iteration': '5/100', 'elapsed_time': '1m 2s', 'memory(GiB)': 61.2, 'train_speed(s/it)': 12.4}"
JSON = '{"loss": 5.80137587, "global_step/max_steps": "3/25", "elapsed_time": "0s", "train_speed(s/it)": 0.091239}'
MEGATRON_3 = (
    " [2026-01-01 00:00:00] iteration        5/     100 | consumed samples:           80 "
    "| elapsed time per iteration (ms): 1234.5 | memory(GiB): 61.2 | elapsed time: 1m 2s | remaining time: 19m "
    "| learning rate: 1.0E-05 | global batch size:    16 | loss: 2.5E+00 | grad norm: 0.9 |"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(STEP, {"step": 1, "steps": 25, "loss": 5.801, "s_per_it": 0.09124}, id="quoted numbers"),
        pytest.param(PLAIN, {"step": 5, "steps": 100, "loss": 1.5, "memory_gib": 61.2, "elapsed": "1m 2s"}, id="plain"),
        pytest.param(JSON, {"step": 3, "loss": 5.80137587, "s_per_it": 0.091239}, id="a line of logging.jsonl"),
        pytest.param(f"[default0]:[default0]:{STEP}", {"step": 1, "loss": 5.801}, id="torchrun's prefix"),
        pytest.param(
            f"Train:   0%|          | 0/25 [00:00<?, ?it/s]{STEP}", {"step": 1, "loss": 5.801}, id="after a bar"
        ),
        pytest.param(f"{STEP}\n{STEP[:60]}", {"step": 1, "loss": 5.801}, id="a truncated last line"),
        pytest.param(
            "{'loss': '2.0', 'global_step/max_steps': '4/8', 'train_speed(iter/s)': '0.25'}",
            {"step": 4, "s_per_it": 4.0},
            id="ms-swift 3 tells iterations in a second",
        ),
        pytest.param(
            MEGATRON_3,
            {
                "step": 5,
                "steps": 100,
                "loss": 2.5,
                "s_per_it": 1.2345,
                "memory_gib": 61.2,
                "global_batch": 16,
                "remaining": "19m",
            },
            id="megatron of ms-swift 3",
        ),
        pytest.param("iteration 5/ 9 | junk |", {"step": 5, "steps": 9, "loss": None}, id="megatron 3 without figures"),
        pytest.param(
            f"{STEP}\n{{'eval_loss': '5.8', 'eval_runtime': '0.2', 'global_step/max_steps': '12/12'}}",
            {"step": 12, "loss": 5.801},
            id="evaluation leaves the loss alone",
        ),
        pytest.param(f"{STEP}\n{STEP.replace('5.801', 'nan')}", {"loss": None, "diverged": True}, id="loss is nan"),
        pytest.param(
            STEP.replace("5.801", "inf") + f"\n{STEP}", {"loss": 5.801, "diverged": False}, id="loss recovered"
        ),
        pytest.param(
            STEP.replace("5.801", "what"), {"step": 1, "loss": None, "diverged": False}, id="loss is no number"
        ),
        pytest.param("{'loss': 1, 'iteration': 'x'}", {"step": None, "loss": None}, id="step is no number"),
        pytest.param(
            f"{STEP}\n\rTrain:  46%|███ | 6/13 [00:00<00:00, 8.71it/s]",
            {"step": 6, "steps": 13},
            id="bar beyond the metrics",
        ),
        pytest.param(
            f"Train:  46%|███ | 1/25 [00:00<00:00, 8.71it/s]\n{STEP}",
            {"step": 1, "steps": 25},
            id="bar behind the metrics",
        ),
        pytest.param(
            "[INFO:swift] last_model_checkpoint: None\n[INFO:swift] Saving the model...",
            {"checkpoint": None},
            id="no checkpoint",
        ),
        pytest.param(
            "per_device_train_batch_size=2,\ngradient_accumulation_steps=4,", {"global_batch": None}, id="no world size"
        ),
        pytest.param(
            "[INFO:swift] rank: -1, local_rank: -1, world_size: 1, local_world_size: 1",
            {"world_size": 1},
            id="one process",
        ),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_progress(text: str, expected: dict[str, Any]) -> None:
    found = parse(text).as_dict()
    assert {key: found[key] for key in expected} == expected


def block(rank: str, code: str) -> str:
    return (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_03:05:13\n  host      : node1\n"
        f"  rank      : {rank} (local_rank: 0)\n  exitcode  : {code} (pid: 2567)\n  error_file: <N/A>\n"
    )


UNKNOWN_FLAG = "ValueError: remaining_argv: ['--foo', '1']"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
PEER = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1234"


@pytest.mark.parametrize(
    ("text", "error", "signal"),
    [
        pytest.param(f"{UNKNOWN_FLAG}\n{CHILD}\n{block('0', '1')}", UNKNOWN_FLAG, None, id="unknown flag"),
        pytest.param(f"[rank0]: {UNKNOWN_FLAG}", UNKNOWN_FLAG, None, id="with the rank in front"),
        pytest.param(
            "OSError: first\nValueError: second", "ValueError: second", None, id="the last one is the one raised"
        ),
        pytest.param(f"{UNKNOWN_FLAG}\n{PEER}", UNKNOWN_FLAG, None, id="the cause before what follows from it"),
        pytest.param(PEER, PEER, None, id="only what follows from another node"),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory.", "torch.OutOfMemoryError: CUDA out of memory.", None, id="oom"
        ),
        pytest.param("AssertionError", "AssertionError", None, id="an exception without words"),
        pytest.param("pt.py: error: unrecognized", "pt.py: error: unrecognized", None, id="usage"),
        pytest.param("he said: ValueError: no", None, None, id="words inside a line"),
        pytest.param(
            block("3", "-9"),
            "The training process of rank 3 was ended by signal 9 (SIGKILL)",
            9,
            id="root cause: signal",
        ),
        pytest.param(
            block("3", "2"), "The training process of rank 3 ended with exit code 2", None, id="root cause: code"
        ),
        pytest.param(
            block("3", "x"), "The training process of rank 3 ended with exit code x", None, id="root cause: odd code"
        ),
        pytest.param(
            f"{PEER}\nfailed (exitcode: 1) local_rank: 2 (pid: 7) of binary",
            f"The training process of local rank 2 ended with exit code 1: {PEER}",
            None,
            id="exit code with what followed from a peer",
        ),
        pytest.param(
            "failed (exitcode: -64) local_rank: 0",
            "The training process of local rank 0 was ended by signal 64",
            64,
            id="odd",
        ),
        pytest.param(f"{UNKNOWN_FLAG}\nEnd time of running main: now", None, None, id="caught, and ended well"),
        pytest.param(
            "End time of running main: now\nfailed (exitcode: 1) local_rank: 0 (pid: 7)",
            "The training process of local rank 0 ended with exit code 1",
            None,
            id="main ended, the process failed",
        ),
        pytest.param(
            "failed (exitcode: -9) local_rank: 1\nfailed (exitcode: 1) local_rank: 0",
            "The training process of local rank 1 was ended by signal 9 (SIGKILL)",
            9,
            id="the first failure counts",
        ),
        pytest.param("  rank      : 7 (local_rank: 0)", None, None, id="a block without its heading"),
    ],
)
def test_error(text: str, error: str | None, signal: int | None) -> None:
    found = parse(text)
    assert (found.error, found.signal) == (error, signal)


PIECES = st.sampled_from(
    [STEP, PLAIN, MEGATRON_3, UNKNOWN_FLAG, PEER, block("0", "-9"), "\r", "\n", "{'", "'}", "[default0]:", "1/2"]
)


@given(st.lists(st.one_of(st.text(), PIECES)).map("".join))
def test_never_fails_on_garbage(text: str) -> None:
    assert isinstance(parse(text), TrainerOutput)


@given(
    st.sampled_from(sorted(path.name for path in FIXTURES.glob("*.log"))), st.integers(0, 50000), st.integers(0, 50000)
)
def test_never_fails_on_a_part_of_real_output(name: str, start: int, length: int) -> None:
    found = parse(captured(name)[start : start + length])
    assert found.world_size in (None, 1, 2)
    assert found.step is None or found.steps is None or found.step <= found.steps


def test_very_long_line_is_cut() -> None:
    assert parse("x" * 1_000_000 + "\n" + STEP).step == 1
