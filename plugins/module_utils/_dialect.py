# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags by version: ms-swift 4 renamed many, and one unknown flag ends a run after minutes of start-up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Version = tuple[int, int, int]

_FOUR: Version = (4, 0, 0)


@dataclass(frozen=True)
class _Rename:
    """A flag with another name before and after a version."""

    old: str
    new: str
    gone: Version = _FOUR  # first version without the old name
    born: Version = _FOUR  # first version with the new name
    note: str = ""


_SWIFT_RENAMES = (
    _Rename("train_type", "tuner_type", gone=(4, 1, 0)),
    _Rename("mcore_adapters", "mcore_adapter"),
)
_MEGATRON_RENAMES = (
    _Rename("train_type", "tuner_type", gone=(4, 1, 0)),
    _Rename("mcore_adapters", "mcore_adapter"),
    _Rename("adapter_load", "mcore_adapter"),
    _Rename("max_epochs", "num_train_epochs"),
    _Rename("num_workers", "dataloader_num_workers"),
    _Rename("save", "output_dir"),
    _Rename("load", "mcore_model"),
    _Rename("save_interval", "save_steps"),
    _Rename("eval_interval", "eval_steps"),
    _Rename("log_interval", "logging_steps"),
    _Rename("distributed_backend", "ddp_backend", born=(0, 0, 0)),
    _Rename("distributed_timeout_minutes", "ddp_timeout", born=(0, 0, 0), note="in seconds"),
    _Rename("save_retain_interval", "save_total_limit", note="which counts checkpoints to keep, at least 2"),
    _Rename("no_initialization", "perform_initialization", note="with the opposite value"),
)
_RENAMES = {"swift": _SWIFT_RENAMES, "megatron": _MEGATRON_RENAMES}

#: Flags of Megatron in ms-swift 3 that have no successor.
_MEGATRON_REMOVED = frozenset(
    {
        "ckpt_format",
        "dataloader_type",
        "exit_on_missing_checkpoint",
        "load_safetensors",
        "log_throughput",
        "no_bias_dropout_fusion",
        "no_bias_gelu_fusion",
        "no_bias_swiglu_fusion",
        "no_gradient_accumulation_fusion",
        "no_masked_softmax_fusion",
        "no_rope_fusion",
        "num_layers_per_virtual_pipeline_stage",
        "seq_length",
        "tensorboard_log_interval",
        "use_flash_attn",
        "wandb_save_dir",
    }
)

#: First versions that know a flag.
_BORN: dict[str, dict[str, Version]] = {
    "swift": {"cached_dataset": (3, 7, 0), "to_cached_dataset": (3, 7, 0), "cached_val_dataset": (3, 7, 0)},
    "megatron": {"cached_dataset": (3, 7, 0), "report_to": (3, 12, 0), "group_by_length": (3, 12, 0)},
}


def parse_version(version: str | None) -> Version | None:
    """The first three numbers of a version such as C(4.6.0.dev0), or nothing."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return (int(match.group(1)), int(match.group(2)), int(match.group(3) or 0)) if match else None


def flag_problems(framework: str, arguments: Mapping[str, Any], version: str | None) -> list[str]:
    """Arguments that this version of ms-swift does not know, each with what to write instead."""
    number = parse_version(version)
    if number is None:
        return []
    names = {str(name).replace("-", "_"): value for name, value in arguments.items() if value is not None}
    shown = ".".join(str(part) for part in number)
    found = [
        problem for rename in _RENAMES.get(framework, ()) for problem in _rename_problems(rename, names, number, shown)
    ]
    found.extend(_born_problems(framework, names, number, shown))
    if framework == "megatron":
        found.extend(_megatron_problems(names, number, shown))
    return found


def _rename_problems(rename: _Rename, names: Mapping[str, Any], number: Version, shown: str) -> list[str]:
    note = f" ({rename.note})" if rename.note else ""
    if rename.old in names and number >= rename.gone:
        return [f"--{rename.old} is a flag of ms-swift 3, but this is {shown}. Write --{rename.new}{note}."]
    if rename.new in names and number < rename.born:
        return [
            f"--{rename.new} is a flag of ms-swift 4, but this is {shown}. Write --{rename.old} or use a newer image."
        ]
    return []


def _born_problems(framework: str, names: Mapping[str, Any], number: Version, shown: str) -> list[str]:
    return [
        f"--{name} needs ms-swift {'.'.join(map(str, born))} or newer, but this is {shown}. "
        "Leave it out or use a newer image."
        for name, born in _BORN.get(framework, {}).items()
        if name in names and number < born
    ]


def _megatron_problems(names: Mapping[str, Any], number: Version, shown: str) -> list[str]:
    found: list[str] = []
    if number >= _FOUR:
        found.extend(
            f"--{name} is a flag of ms-swift 3 that {shown} does not have any more. Leave it out."
            for name in names
            if name in _MEGATRON_REMOVED
        )
    if "resume_from_checkpoint" in names:
        flag = "mcore_model" if number >= _FOUR else "load"
        found.append(
            "--resume_from_checkpoint is not a flag of megatron. "
            f"To go on from a checkpoint, write --{flag} CHECKPOINT --finetune false."
        )
    if number >= (4, 0, 1) and _true(names.get("group_by_length")) and _padding_free(names):
        found.append(
            "--group_by_length true cannot be combined with packing or padding_free (the default) "
            f"in ms-swift {shown}. Set group_by_length to false."
        )
    return found


def _true(value: Any) -> bool:
    return str(value).lower() == "true"


def _padding_free(names: Mapping[str, Any]) -> bool:
    return _true(names.get("packing")) or _true(names.get("padding_free", True))
