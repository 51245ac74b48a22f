# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of flags by version."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils._dialect import flag_problems, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.6.0", (4, 6, 0)),
        ("4.6.0.dev0", (4, 6, 0)),
        ("v3.12", (3, 12, 0)),
        ("", None),
        (None, None),
        ("unknown", None),
    ],
)
def test_parse_version(text: str | None, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("framework", "arguments", "version", "part"),
    [
        (
            "swift",
            {"train_type": "full"},
            "4.6.0",
            "--train_type is a flag of ms-swift 3, but this is 4.6.0. Write --tuner_type.",
        ),
        ("swift", {"train-type": "full"}, "4.1.0", "--train_type is a flag of ms-swift 3"),
        (
            "swift",
            {"tuner_type": "full"},
            "3.12.4",
            "--tuner_type is a flag of ms-swift 4, but this is 3.12.4. Write --train_type",
        ),
        ("swift", {"cached_dataset": "/c"}, "3.6.4", "--cached_dataset needs ms-swift 3.7.0 or newer"),
        ("swift", {"mcore_adapters": "/c"}, "4.0.0", "Write --mcore_adapter."),
        ("megatron", {"train_type": "full"}, "4.6.0", "Write --tuner_type."),
        ("megatron", {"max_epochs": 1}, "4.6.0", "Write --num_train_epochs."),
        ("megatron", {"num_train_epochs": 1}, "3.12.0", "Write --max_epochs or use a newer image."),
        ("megatron", {"num_workers": 1}, "4.0.0", "Write --dataloader_num_workers."),
        ("megatron", {"save": "/o"}, "4.0.0", "Write --output_dir."),
        ("megatron", {"output_dir": "/o"}, "3.12.0", "Write --save or"),
        ("megatron", {"load": "/o"}, "4.0.0", "Write --mcore_model."),
        ("megatron", {"mcore_model": "/o"}, "3.12.0", "Write --load or"),
        ("megatron", {"save_interval": 5}, "4.0.0", "Write --save_steps."),
        ("megatron", {"log_interval": 5}, "4.0.0", "Write --logging_steps."),
        ("megatron", {"distributed_timeout_minutes": 5}, "4.0.0", "Write --ddp_timeout (in seconds)."),
        ("megatron", {"no_initialization": True}, "4.0.0", "Write --perform_initialization (with the opposite value)."),
        ("megatron", {"save_retain_interval": 5}, "4.0.0", "Write --save_total_limit (which counts"),
        ("megatron", {"use_flash_attn": True}, "4.6.0", "that 4.6.0 does not have any more. Leave it out."),
        ("megatron", {"report_to": "wandb"}, "3.11.0", "--report_to needs ms-swift 3.12.0 or newer"),
        ("megatron", {"resume_from_checkpoint": "/c"}, "4.6.0", "--mcore_model CHECKPOINT --finetune false"),
        ("megatron", {"resume_from_checkpoint": "/c"}, "3.12.0", "--load CHECKPOINT --finetune false"),
        ("megatron", {"group_by_length": True}, "4.1.2", "Set group_by_length to false."),
        (
            "megatron",
            {"group_by_length": "true", "packing": "true", "padding_free": False},
            "4.0.1",
            "Set group_by_length",
        ),
    ],
)
def test_problems(framework: str, arguments: dict[str, Any], version: str, part: str) -> None:
    (problem,) = flag_problems(framework, arguments, version)
    assert part in problem


@pytest.mark.parametrize(
    ("framework", "arguments", "version"),
    [
        ("swift", {"train_type": "full"}, "4.0.4"),
        ("swift", {"train_type": "full"}, "3.12.0"),
        ("swift", {"train_type": "full"}, None),
        ("swift", {"train_type": "full"}, "git"),
        ("swift", {"train_type": None, "save": "/o", "num_train_epochs": 1}, "4.6.0"),
        ("swift", {"mcore_model": "/o", "max_epochs": 3}, "3.12.0"),
        ("megatron", {"ddp_backend": "nccl", "ddp_timeout": 5}, "3.12.0"),
        ("megatron", {"group_by_length": True, "padding_free": False}, "4.1.2"),
        ("megatron", {"group_by_length": False, "packing": True}, "4.1.2"),
        ("megatron", {"group_by_length": True, "packing": True}, "4.0.0"),
        ("torch", {"train_type": "full"}, "4.6.0"),
    ],
)
def test_no_problems(framework: str, arguments: dict[str, Any], version: str | None) -> None:
    assert flag_problems(framework, arguments, version) == []


def test_all_at_once() -> None:
    arguments = {"max_epochs": 1, "save": "/o", "load": "/m", "train_type": "full", "seq_length": 5}
    assert len(flag_problems("megatron", arguments, "4.6.0")) == 5
