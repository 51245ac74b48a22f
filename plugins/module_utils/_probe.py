# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a runtime from the inside: cores, GPUs, the trainer's version, files, checkpoints, a port.

This file is handed to a container's C(python3 -c) with one JSON argument and answers in JSON. It must therefore work
alone: standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_SECONDS = 20
_RUN_FOLDER = re.compile(r"v(\d+)-\d{8}-\d{6}\Z")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)\Z")
_WEIGHTS = re.compile(r"(model|adapter_model|pytorch_model).*\.(safetensors|bin)(\.index\.json)?\Z")
_OPTIMIZER = re.compile(r"(optimizer\.(pt|bin)|global_step\d+|optimizer_\d+|pytorch_model_fsdp_\d+)\Z")


def probe(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request: C(globs), C(paths), C(framework), C(bin_dir), C(jobs_dir), C(output_dir), C(address), C(port)."""
    program = find_program(str(request["framework"]), request.get("bin_dir"), os.environ.get("PATH", os.defpath))
    python = interpreter(program) if program else None
    return {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "uid": os.getuid(),
        "program": program,
        "version": trainer_version(python) if python else None,
        "cores": cores(),
        "gpus": visible_gpus(),
        "files": {pattern: sorted(glob.glob(pattern, recursive=True)) for pattern in request.get("globs", ())},
        "missing": [path for path in request.get("paths", ()) if not os.path.exists(path)],
        "jobs_dir": folder_state(str(request["jobs_dir"])),
        "jobs_dir_inode": inode(str(request["jobs_dir"])),
        "checkpoints": checkpoints(str(request["output_dir"])) if request.get("output_dir") else [],
        "port": port_state(str(request["address"]), int(request["port"])) if request.get("port") else None,
    }


# --- the trainer ----------------------------------------------------------------------------------------------------


def find_program(name: str, bin_dir: str | None, path: str) -> str | None:
    """Where C(swift) or C(megatron) is."""
    return shutil.which(name, path=bin_dir or path)


def interpreter(program: str) -> str | None:
    """The Python that a console script runs with, from its first lines."""
    try:
        with open(program, encoding="utf-8", errors="replace") as stream:
            lines = [stream.readline(), stream.readline()]
    except OSError:
        return None
    return shebang(lines)


def shebang(lines: Sequence[str]) -> str | None:
    """The interpreter named by a script's first two lines (pip writes the second form for long paths)."""
    first = lines[0].strip()
    if not first.startswith("#!"):
        return None
    words = first[2:].split()
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if not word.startswith("-")]
    if words and os.path.basename(words[0]) in ("sh", "bash") and len(lines) > 1:
        match = re.match(r"'''exec' (?:\"([^\"]+)\"|(\S+))", lines[1])
        return (match.group(1) or match.group(2)) if match else None
    return words[0] if words else None


def trainer_version(python: str) -> str | None:
    """The version of ms-swift that this Python sees, without importing it."""
    code = "import importlib.metadata as m; print(m.version('ms-swift'))"
    return (_output([python, "-c", code]) or "").strip() or None


def _output(argv: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(list(argv), capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


# --- cores and GPUs -------------------------------------------------------------------------------------------------


def cores() -> int:
    """Cores that a process here may use: its affinity, and the quota of its cgroup."""
    allowed = len(os.sched_getaffinity(0))
    quota = cpu_quota(_first_text("/sys/fs/cgroup/cpu.max"))
    if quota is None:
        spent = _first_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")
        period = _first_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us")
        quota = cpu_quota(f"{spent} {period}")
    return allowed if quota is None else max(1, min(allowed, quota))


def cpu_quota(text: str) -> int | None:
    """Whole cores of a C(quota period) pair; nothing where there is no limit."""
    words = text.split()
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit() or int(words[1]) == 0:
        return None
    return max(1, int(words[0]) // int(words[1]))


def _first_text(*paths: str) -> str:
    for path in paths:
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as stream:
            return stream.read().strip()
    return ""


def visible_gpus() -> list[int]:
    """Indices of the GPUs that processes here can use; none where there is no NVIDIA driver."""
    program = shutil.which("nvidia-smi")
    text = _output([program, "--query-gpu=index", "--format=csv,noheader"]) if program else None
    return gpu_indices(text or "")


def gpu_indices(text: str) -> list[int]:
    """The numbers in nvidia-smi's list of indices; its complaints are no numbers."""
    return [int(line) for line in text.split() if line.isdigit()]


# --- files ----------------------------------------------------------------------------------------------------------


def folder_state(path: str) -> str:
    """C(ok), C(missing) or C(read-only)."""
    if not os.path.isdir(path):
        return "missing"
    return "ok" if os.access(path, os.R_OK | os.W_OK | os.X_OK) and _mounted_writable(path) else "read-only"


def inode(path: str) -> int | None:
    """The inode number of a folder: the same inside and outside of a container if it is the same folder."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _mounted_writable(path: str) -> bool:
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def checkpoints(output_dir: str) -> list[dict[str, Any]]:
    """Checkpoints below an output folder, the newest run last and within it the highest step last."""
    found = []
    for name in _names(output_dir):
        run = _RUN_FOLDER.match(name)
        if run:
            folder = os.path.join(output_dir, name)
            found += [(int(run.group(1)), *item) for item in _checkpoints_in(folder)]
    found += [(-1, *item) for item in _checkpoints_in(output_dir)]
    return [{"path": path, "step": step, "complete": complete(path)} for _run, step, path in sorted(found)]


def _checkpoints_in(folder: str) -> list[tuple[int, str]]:
    matches = [(_CHECKPOINT.match(name), os.path.join(folder, name)) for name in _names(folder)]
    return [(int(match.group(1)), path) for match, path in matches if match and os.path.isdir(path)]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def complete(checkpoint: str) -> bool:
    """Whether training can go on from here: weights and the optimizer's state are there, in the framework's layout."""
    names = _names(checkpoint)
    if "latest_checkpointed_iteration.txt" in names:
        return _complete_megatron(checkpoint)
    weights = any(_WEIGHTS.match(name) for name in names)
    sharded = any(_OPTIMIZER.match(name) and not name.startswith("optimizer.") for name in names)
    optimizer = any(_OPTIMIZER.match(name) for name in names)
    return "trainer_state.json" in names and optimizer and (weights or sharded)


def _complete_megatron(checkpoint: str) -> bool:
    iteration = _first_text(os.path.join(checkpoint, "latest_checkpointed_iteration.txt"))
    if not iteration.isdigit():
        return False
    names = _names(os.path.join(checkpoint, f"iter_{int(iteration):07d}"))
    return ".metadata" in names and any(name.endswith(".distcp") for name in names)


# --- the master port ------------------------------------------------------------------------------------------------


def port_state(address: str, port: int) -> str:
    """C(free), C(taken), C(not here) when the address is not this machine's, or C(unknown name)."""
    try:
        infos = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return "unknown name"
    for family, kind, protocol, _name, target in infos:
        state = _bind(family, kind, protocol, (target[0], 0, *target[2:]), listen=False)
        if state != "free":
            return state
    # The trainer's store listens on every address of the machine, not only on the master's.
    everywhere = [(socket.AF_INET, ("0.0.0.0", port)), (socket.AF_INET6, ("::", port))]
    states = [_bind(family, socket.SOCK_STREAM, 0, target, listen=True) for family, target in everywhere]
    return "taken" if "taken" in states else "free"


def _bind(family: int, kind: int, protocol: int, target: Any, listen: bool) -> str:
    try:
        with socket.socket(family, kind, protocol) as probe_socket:
            # A port in TIME-WAIT is free for a trainer, which sets this as well.
            probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe_socket.bind(target)
            if listen:
                probe_socket.listen(1)
    except OSError as exc:
        return {errno.EADDRINUSE: "taken", errno.EADDRNOTAVAIL: "not here"}.get(exc.errno or 0, "free")
    return "free"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(json.loads(sys.argv[1]))) + "\n")
