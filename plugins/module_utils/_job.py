# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node's part of a job is: its specification, its digest, and what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import _arguments

NAME_PATTERN = r"[a-z0-9][a-z0-9-]{0,62}"
FRAMEWORKS: tuple[str, ...] = ("swift", "megatron")
COMMANDS: tuple[str, ...] = ("pt", "sft", "rlhf", "export")
RUNTIMES: tuple[str, ...] = ("docker", "host")

_NOT_IN_DIGEST = ("jobs_dir",)


@dataclass(frozen=True)
class JobSpec:
    """One node's part of a job. Values of secrets are never in it, only their names."""

    name: str
    framework: str = "swift"
    command: str = "pt"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    secret_names: Sequence[str] = ()
    nnodes: int = 1
    node_rank: int = 0
    nproc_per_node: int | None = None
    master_addr: str = "127.0.0.1"
    master_port: int = 29500
    gpus: Sequence[int] | None = None
    socket_interface: str | None = None
    runtime: str = "docker"
    container: str = "trainyard"
    bin_dir: str | None = None
    jobs_dir: str = "/var/lib/trainyard/jobs"
    colocated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain data for C(spec.json), comparable between runs.

        Arguments are kept as the words they become on the command line, and environment values as text,
        so that C(1), C("1") and a pasted command line give one and the same specification.
        """
        return {
            "name": self.name,
            "framework": self.framework,
            "command": self.command,
            "arguments": _arguments.canonical(self.arguments),
            "environment": environment_text(self.environment),
            "secret_names": sorted(self.secret_names),
            "nnodes": self.nnodes,
            "node_rank": self.node_rank,
            "nproc_per_node": self.nproc_per_node,
            "master_addr": self.master_addr,
            "master_port": self.master_port,
            "gpus": None if self.gpus is None else list(self.gpus),
            "socket_interface": self.socket_interface,
            "runtime": self.runtime,
            "container": self.container if self.runtime == "docker" else None,
            "bin_dir": self.bin_dir,
            "jobs_dir": self.jobs_dir,
            "colocated": self.colocated,
        }

    def digest(self) -> str:
        """SHA-256 of the canonical JSON of everything that makes this run what it is."""
        data = {key: value for key, value in self.as_dict().items() if key not in _NOT_IN_DIGEST}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def environment_text(environment: Mapping[str, Any]) -> dict[str, str]:
    """Environment values as a process gets them; null leaves a variable out."""
    return {str(name): _arguments.text(value) for name, value in environment.items() if value is not None}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What changed between two specifications (C(JobSpec.as_dict)), one entry per changed key, sorted."""
    before, after = _flat(old), _flat(new)
    return [
        {"key": key, "before": before.get(key), "after": after.get(key)}
        for key in sorted(set(before) | set(after))
        if before.get(key) != after.get(key)
    ]


def _flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if key in _NOT_IN_DIGEST:
            continue
        if isinstance(value, Mapping):
            flat.update({f"{key}.{name}": item for name, item in value.items()})
        else:
            flat[key] = value
    return flat


def logging_rank(framework: str, nnodes: int) -> int:
    """Rank of the node whose output has the training metrics: the first for swift, the last for Megatron."""
    return nnodes - 1 if framework == "megatron" else 0


def name_problem(name: Any) -> str | None:
    """Why a job cannot have this name, or nothing."""
    if isinstance(name, str) and re.fullmatch(NAME_PATTERN, name):
        return None
    return (
        f"The job name {name!r} cannot be used: it becomes the name of a folder on every node. "
        "Use 1 to 63 lower-case letters, digits and hyphens, with a letter or a digit first, such as 'qwen3-vl-8b'."
    )


def choice_problem(what: str, value: Any, choices: Sequence[str]) -> str | None:
    """Why this value is not one of the choices, or nothing."""
    if value in choices:
        return None
    return f"Unknown {what} {value!r}. Choose one of: {', '.join(choices)}."


def port_problem(port: Any) -> str | None:
    """Why a trainer cannot listen on this port, or nothing."""
    if isinstance(port, int) and not isinstance(port, bool) and 1024 <= port <= 65535:
        return None
    return f"The master port {port!r} cannot be used. Give an integer from 1024 to 65535; 29500 is the usual one."


def export_problem(framework: str, command: str, nnodes: int) -> str | None:
    """Why this command cannot run on so many nodes, or nothing."""
    if framework == "swift" and command == "export" and nnodes > 1:
        return (
            f"'swift export' does not work together across nodes: started on {nnodes} nodes, each would convert alone "
            "and write the same folder. Run it on one node, or use 'megatron export' (ms-swift 3.10 or newer)."
        )
    return None


def problems(spec: JobSpec) -> list[str]:
    """All that is wrong with a specification as far as its own values tell."""
    found = [
        name_problem(spec.name),
        choice_problem("framework", spec.framework, FRAMEWORKS),
        choice_problem("command", spec.command, COMMANDS),
        choice_problem("runtime", spec.runtime, RUNTIMES),
        export_problem(spec.framework, spec.command, spec.nnodes),
        _rank_problem(spec.nnodes, spec.node_rank),
        _count_problem(spec.nproc_per_node),
        port_problem(spec.master_port),
        _gpus_problem(spec.gpus, spec.nproc_per_node),
        _named_gpus_problem(environment_text(spec.environment).get("CUDA_VISIBLE_DEVICES", ""), spec.nproc_per_node),
        *_arguments.problems(spec.arguments),
    ]
    return [problem for problem in found if problem]


def _rank_problem(nnodes: int, node_rank: int) -> str | None:
    if nnodes < 1:
        return f"nnodes is {nnodes}: a job needs at least one node."
    if not 0 <= node_rank < nnodes:
        return f"node_rank is {node_rank}, but with nnodes {nnodes} the ranks are 0 to {nnodes - 1}."
    return None


def _count_problem(nproc_per_node: int | None) -> str | None:
    if nproc_per_node is None or nproc_per_node >= 1:
        return None
    return (
        f"nproc_per_node is {nproc_per_node}: each node needs at least one process. "
        "Leave it out to use all visible GPUs."
    )


def _gpus_problem(gpus: Sequence[int] | None, nproc_per_node: int | None) -> str | None:
    if gpus is None:
        return None
    listed = ", ".join(str(gpu) for gpu in gpus)
    if len(set(gpus)) != len(gpus) or any(gpu < 0 for gpu in gpus):
        return f"gpus is [{listed}]: give each GPU index once, counted from 0."
    if nproc_per_node is not None and gpus and nproc_per_node > len(gpus):
        return (
            f"nproc_per_node is {nproc_per_node}, but gpus lists only {len(gpus)} ([{listed}]). "
            "Each process needs a GPU of its own: lower nproc_per_node or list more GPUs."
        )
    return None


def _named_gpus_problem(named: str, nproc_per_node: int | None) -> str | None:
    count = len([word for word in named.split(",") if word.strip()])
    if nproc_per_node is None or count == 0 or nproc_per_node <= count:
        return None
    return (
        f"nproc_per_node is {nproc_per_node}, but CUDA_VISIBLE_DEVICES in the environment names only {count} "
        f"({named}). Each process needs a GPU of its own: lower nproc_per_node or name more GPUs."
    )
