# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a whole job, put together from what each node says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils._job import logging_rank
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_mapping,
    a_rank_map,
    enumerate_names,
    integer,
    list_or_empty,
    mapping_or_empty,
)

_TRAINING = ("pt", "sft", "rlhf")
_COLUMNS = ("node", "rank", "state", "step", "loss", "s/it", "detail")


def job_summary(results: Any, rank_map: Any) -> dict[str, Any]:
    """State, progress, speed, checkpoint and failures of a job over all nodes, with a table for people."""
    by_name = a_mapping(results, "The results")
    nodes = [_Node(entry, by_name.get(str(entry["name"]))) for entry in a_rank_map(rank_map)["nodes"]]
    logging = _logging_node(nodes)
    progress = logging.progress if logging else {}
    state, reason = combine_states([node.state for node in nodes], _last_step(logging))
    failures = _failures(nodes) or ([reason] if reason else [])
    speed = _speed(logging, progress)
    summary: dict[str, Any] = {
        "name": next((node.job["name"] for node in nodes if node.job.get("name")), None),
        "state": state,
        "nodes": [node.row() for node in nodes],
        "logging_node": logging.name if logging else None,
        "step": progress.get("step"),
        "steps": progress.get("steps"),
        "loss": progress.get("loss"),
        "s_per_it": progress.get("s_per_it"),
        **speed,
        "checkpoint": _checkpoint(nodes, logging),
        "failures": failures,
    }
    return {**summary, "table": _table(summary["nodes"]), "headline": _headline(summary)}


def combine_states(states: Sequence[str], last_step_reached: bool | None) -> tuple[str, str | None]:
    """One state for the job and, where the nodes' own states do not tell it, the reason.

    C(last_step_reached) is null for a command that has no steps. A node that does not answer says nothing about the
    job: what the others say counts, as far as it tells the state of the whole job.
    """
    present = set(states) - {"unknown"}
    for decisive in ("failed", "lost"):
        if decisive in present:
            return decisive, None
    if "unknown" in states and not present & {"starting", "running"}:
        return "unknown", "Not every node answered, so the state of the job is not known."
    if present <= {"absent"}:
        return "absent", None
    if present == {"finished"}:
        return _finished(last_step_reached)
    return _mixed(present)


def _finished(last_step_reached: bool | None) -> tuple[str, str | None]:
    if last_step_reached is False:
        return "failed", (
            "The trainer ended without an error on every node, but before the last step. "
            "Look into the output of the node that logs, with logs.yml."
        )
    return "finished", None


def _mixed(present: set[str]) -> tuple[str, str | None]:
    active = present & {"starting", "running"}
    if active and "absent" in present:
        return (
            "failed",
            "The job runs on some nodes and is not present on others. Stop it with stop.yml and start it again.",
        )
    if active:
        return ("starting" if "starting" in active else "running"), None
    if "absent" in present:
        return "lost", "The job is not present on some of its nodes. Stop it with stop.yml and start it again."
    return "stopped", None


class _Node:
    """One node's answer."""

    def __init__(self, entry: Mapping[str, Any], result: Any) -> None:
        self.name = str(entry["name"])
        self.rank = int(entry["rank"])
        self.result = mapping_or_empty(result)
        jobs = list_or_empty(self.result.get("jobs"))
        self.job: Mapping[str, Any] = mapping_or_empty(jobs[0]) if jobs else {}
        self.progress: Mapping[str, Any] = mapping_or_empty(self.job.get("progress"))

    @property
    def state(self) -> str:
        if self.job:
            return str(self.job.get("state") or "unknown")
        return "absent" if "jobs" in self.result and not self.result.get("unreachable") else "unknown"

    @property
    def detail(self) -> str:
        if self.state == "unknown":
            message = str(self.result.get("msg") or "no answer").strip()
            return message.splitlines()[0] if message else "no answer"
        if self.state in ("failed", "lost", "stopped"):
            return self._reason()
        return str(self.job.get("waiting_for") or "")

    def _reason(self) -> str:
        """What happened, in the trainer's own words where it left any."""
        said = str(self.job.get("error") or self.progress.get("error") or "").strip()
        reason = str(self.job.get("reason") or "").strip()
        parts = [part for part in (reason, said) if part]
        if len(parts) == 2 and parts[1] in parts[0]:
            parts.pop()
        number, code = self.job.get("signal"), self.job.get("returncode")
        if number and not any(re.search(rf"signal {number}\b", part) for part in parts):
            parts.insert(0, f"signal {number}")
        elif code and not number and not parts:
            parts.append(f"exit code {code}")
        return ": ".join(parts)

    def row(self) -> dict[str, Any]:
        keys = (
            "attempt",
            "world_size",
            "expected_world_size",
            "returncode",
            "signal",
            "started_at",
            "ended_at",
            "path",
        )
        return {
            "name": self.name,
            "rank": self.rank,
            "state": self.state,
            "detail": self.detail,
            **{key: self.progress.get(key) for key in ("step", "steps", "loss", "s_per_it", "memory_gib")},
            **{key: self.job.get(key) for key in keys},
        }


def _logging_node(nodes: Sequence[_Node]) -> _Node | None:
    """The node whose output has the metrics: by its own word, else by the framework."""
    said = [node for node in nodes if node.job.get("logs_here")]
    if said:
        return said[0]
    framework = next((str(node.job["framework"]) for node in nodes if node.job.get("framework")), "swift")
    wanted = logging_rank(framework, len(nodes))
    return next((node for node in nodes if node.rank == wanted and node.job), None)


def _last_step(logging: _Node | None) -> bool | None:
    """Whether the last step was reached; nothing for a job that trains nothing or may stop early."""
    if logging is None or logging.job.get("command", "pt") not in _TRAINING or _flag(logging, "early_stop_interval"):
        return None
    step, steps = integer(logging.progress.get("step")), integer(logging.progress.get("steps"))
    return step is not None and steps is not None and step >= steps


def _failures(nodes: Sequence[_Node]) -> list[str]:
    """Failed and lost nodes, the one that ended first in front: the others usually only follow."""
    bad = [node for node in nodes if node.state in ("failed", "lost", "unknown")]
    bad.sort(key=lambda node: (node.state == "unknown", str(node.job.get("ended_at") or "9999"), node.rank))
    return [f"{node.name} (rank {node.rank}): {_what_happened(node)}" for node in bad]


def _what_happened(node: _Node) -> str:
    what = "did not answer" if node.state == "unknown" else node.state
    return f"{what}: {node.detail}" if node.detail else what


def _speed(logging: _Node | None, progress: Mapping[str, Any]) -> dict[str, float | None]:
    samples = _samples_per_s(logging, progress)
    mean = progress.get("mean_tokens")
    packed = logging is not None and str((_flag(logging, "packing") or ["false"])[0]).lower() == "true"
    tokens = samples * float(mean) if samples and mean and not packed else None
    return {
        "samples_per_s": None if samples is None else round(samples, 3),
        "tokens_per_s": None if tokens is None else round(tokens, 1),
    }


def _samples_per_s(logging: _Node | None, progress: Mapping[str, Any]) -> float | None:
    """The trainer's own figure at the end; until then the global batch over the time of a step."""
    if logging is None:
        return None
    own = progress.get("samples_per_s")
    if own:
        return float(own)
    batch, seconds = _global_batch(logging), progress.get("s_per_it")
    return batch / float(seconds) if batch and seconds else None


def _global_batch(node: _Node) -> int | None:
    known = integer(node.progress.get("global_batch"))
    if known:
        return known
    if node.job.get("framework") == "megatron":
        return integer((_flag(node, "global_batch_size") or ["16"])[0])
    world = integer(node.job.get("world_size"))
    size = integer((_flag(node, "per_device_train_batch_size") or ["1"])[0])
    steps = integer((_flag(node, "gradient_accumulation_steps") or [""])[0])
    return world * size * steps if world and size and steps else None


def _flag(node: _Node, name: str) -> list[str]:
    """The values of a flag on the command line."""
    words = [str(word) for word in list_or_empty(node.job.get("argv"))]
    flag = f"--{name}"
    if flag not in words:
        return []
    values: list[str] = []
    for word in words[words.index(flag) + 1 :]:
        if word.startswith("--"):
            break
        values.append(word)
    return values


def _checkpoint(nodes: Sequence[_Node], logging: _Node | None) -> str | None:
    """The newest checkpoint that any node speaks of; the node that logs is asked first."""
    asked = [*([logging] if logging else []), *nodes]
    paths = [str(node.progress["checkpoint"]) for node in asked if node.progress.get("checkpoint")]
    return max(paths, key=_checkpoint_step, default=None)


def _checkpoint_step(path: str) -> int:
    match = re.search(r"checkpoint-(\d{1,12})/?\Z", path)
    return int(match.group(1)) if match else -1


def _headline(summary: Mapping[str, Any]) -> str:
    name = f"Job {summary['name']}" if summary["name"] else "The job"
    nodes = summary["nodes"]
    silent = [str(row["name"]) for row in nodes if row["state"] == "unknown"]
    count = f"{len(nodes) - len(silent)} of {len(nodes)}" if silent else str(len(nodes))
    text = f"{name}: {summary['state']} on {count} {'node' if len(nodes) == 1 else 'nodes'}"
    parts = [*([f"{enumerate_names(silent)} did not answer"] if silent else []), *_figures(summary)]
    waiting = [row for row in nodes if row["state"] in ("starting", "running") and row["detail"]]
    if waiting and summary["step"] is None:
        parts.append(f"waiting for {enumerate_names(list(dict.fromkeys(row['detail'] for row in waiting)))}")
    return ", ".join([text, *parts]) + "."


def _figures(summary: Mapping[str, Any]) -> list[str]:
    parts: list[str] = []
    if summary["step"] is not None:
        parts.append(f"step {summary['step']} of {summary['steps']}")
    for key, text in (("loss", "loss {}"), ("s_per_it", "{} s/it"), ("tokens_per_s", "{} tokens/s")):
        if summary[key] is not None:
            parts.append(text.format(_short(summary[key])))
    return parts


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [_COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    step = "-" if row["step"] is None else f"{row['step']}/{row['steps']}"
    return (
        row["name"],
        str(row["rank"]),
        row["state"],
        step,
        _short(row["loss"]),
        _short(row["s_per_it"]),
        " ".join(row["detail"].split()),
    )


def _short(value: Any) -> str:
    return "-" if value is None else f"{float(value):.6g}"
