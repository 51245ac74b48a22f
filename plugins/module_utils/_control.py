# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting and stopping one node's part of a job."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import (
    _arguments,
    _dialect,
    _environment,
    _job,
    _probe,
    _procfs,
    _runtime,
    _states,
    _supervisor,
)
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import JobsDir, Observation, RankDir

#: A wait for the end of another start or stop on the same node.
_LOCK_SECONDS = 60
#: What the supervisor needs beyond the grace period: repeated SIGKILL, and its own end.
_STOP_MARGIN = _supervisor.KILL_SECONDS + 10
#: What a supervisor needs to end after it has written the final status.
_LAST_BREATH = 3.0
_POLL = 0.1


@dataclass(frozen=True)
class StartRequest:
    """Everything that C(state=started) was asked for."""

    spec: _job.JobSpec
    secrets: Mapping[str, str] = field(default_factory=dict)
    replace: bool = False
    rerun: bool = False
    resume_from: str | None = None
    start_timeout: float = 30
    stop_timeout: float = 30
    check_mode: bool = False


@dataclass(frozen=True)
class Plan:
    """What would be started."""

    argv: list[str]
    environment: dict[str, str]
    nproc_per_node: int
    visible_gpus: list[int]
    trainer_version: str | None
    container_image: str | None
    files: dict[str, list[str]]
    checkpoints: list[dict[str, Any]]
    warnings: list[str]
    started_in: dict[str, Any]

    def result(self) -> dict[str, Any]:
        """The plan's part of the module's result; also kept in spec.json for those who attach later."""
        return {
            "argv": self.argv,
            "environment": self.environment,
            "nproc_per_node": self.nproc_per_node,
            "visible_gpus": self.visible_gpus,
            "trainer_version": self.trainer_version,
            "container_image": self.container_image,
            "files": self.files,
            "checkpoints": self.checkpoints,
        }


_NO_PLAN: dict[str, Any] = {
    "argv": [],
    "environment": {},
    "nproc_per_node": None,
    "visible_gpus": [],
    "trainer_version": None,
    "container_image": None,
    "files": {},
    "checkpoints": [],
}


# --- start ----------------------------------------------------------------------------------------------------------


def start(request: StartRequest, make_runtime: Callable[[_job.JobSpec], _runtime.Runtime]) -> dict[str, Any]:
    """Bring one node's part of a job to life, or say why that is not needed or not possible."""
    jobs_dir = JobsDir(request.spec.jobs_dir)
    problems = [
        *_job.problems(request.spec),
        *_environment.problems(request.spec.environment, request.secrets),
        *jobs_dir.problems(),
        *secret_problems(request.secrets),
    ]
    if problems:
        raise SwiftError(problems)
    if request.check_mode:
        return _start(request, jobs_dir, make_runtime)
    with jobs_dir.locked(_LOCK_SECONDS):
        return _start(request, jobs_dir, make_runtime)


def secret_problems(secrets: Mapping[str, Any]) -> list[str]:
    """Secrets that cannot be kept secret, or cannot be given to a process."""
    found = []
    for name, value in secrets.items():
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            found.append(f"The secret {name!r} is not text. Give it as a quoted string.")
        elif len(str(value)) < 4:
            found.append(
                f"The secret {name!r} has fewer than 4 characters: masking it would garble every output. Check it."
            )
    return found


def _start(
    request: StartRequest, jobs_dir: JobsDir, make_runtime: Callable[[_job.JobSpec], _runtime.Runtime]
) -> dict[str, Any]:
    spec = request.spec
    rank = RankDir(spec.jobs_dir, spec.name, spec.node_rank)
    seen = _newest(rank, jobs_dir)
    changes = _differences(seen, spec)
    same = seen.digest == spec.digest()
    decision = _states.decide(seen.state, same, request.replace, request.rerun, [str(item["key"]) for item in changes])
    problems = jobs_dir.busy_problems(rank)
    if decision.problem:
        problems.append(f"The job {spec.name!r} {decision.problem}")
    if problems:
        raise SwiftError(problems, {"differences": changes, "state": seen.state})
    result = {
        **_common(rank, seen, spec),
        "action": decision.action,
        "msg": f"The job {spec.name!r} {decision.message}.",
        "differences": changes,
    }
    if decision.action != "start":
        return {**result, **_NO_PLAN, **(seen.spec.get("plan") or {})}
    with contextlib.closing(make_runtime(spec)) as runtime:
        plan = make_plan(request, rank, runtime)
        result.update(plan.result(), changed=True, attempt=seen.attempt + 1, warnings=plan.warnings)
        result["diff"] = _start_diff(seen, changes, result)
        if not request.check_mode:
            _make_room(request, rank)
            result["state"] = _launch(request, rank, seen, plan, runtime)
    return result


def _newest(rank: RankDir, jobs_dir: JobsDir) -> Observation:
    """What this node knows of the job: its newest attempt, under whatever rank the node had in the job then."""
    own = rank.observe()
    if own.state in _states.LIVE:
        return own
    others = [other for other in jobs_dir.ranks(rank.job) if other.path != rank.path]
    newest = max([rank, *others], key=lambda each: each.begun())
    seen = newest.observe()
    if newest is rank or seen.state in _states.LIVE:
        return own  # one that runs under another rank is told with all that occupies this node
    return replace(seen, status={**seen.status, "attempt": max(seen.attempt, own.attempt)})


def _make_room(request: StartRequest, rank: RankDir) -> None:
    """End what this start takes the place of: a job that is replaced, or what is left of an earlier attempt."""
    if _needs_stop(rank):
        _end_rank(rank, request.stop_timeout, "ended for the next attempt")


def _common(rank: RankDir, seen: Observation, spec: _job.JobSpec) -> dict[str, Any]:
    return {
        "changed": False,
        "state": seen.state,
        "attempt": seen.attempt,
        "digest": spec.digest(),
        "secret_names": sorted(spec.secret_names),
        "folder": rank.path,
        "jobs_dir_id": _procfs.folder_id(spec.jobs_dir),
        "warnings": [],
    }


def _differences(seen: Observation, spec: _job.JobSpec) -> list[dict[str, Any]]:
    old = seen.spec.get("spec")
    return _job.differences(old, spec.as_dict()) if isinstance(old, dict) else []


def _start_diff(seen: Observation, changes: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> dict[str, Any]:
    before = {"state": seen.state, "attempt": seen.attempt, **{str(item["key"]): item["before"] for item in changes}}
    after = {"state": "running", "attempt": result["attempt"], **{str(item["key"]): item["after"] for item in changes}}
    if seen.state == "absent":
        after["argv"] = result["argv"]
        after["environment"] = result["environment"]
    return {"before": before, "after": after}


def make_plan(request: StartRequest, rank: RankDir, runtime: _runtime.Runtime) -> Plan:
    """Look at the node and work out what would be started; all problems of the node at once."""
    spec = request.spec
    patterns = _arguments.globs(spec.arguments)
    seen = runtime.probe(_probe_request(request, patterns))
    arguments = {**spec.arguments, **resume_arguments(spec.framework, request.resume_from, seen["version"])}
    gpus = [int(gpu) for gpu in seen["gpus"]]
    environment = _environment.derive(spec, int(seen["cores"]), gpus)
    problems = [
        *_program_problems(spec, seen["program"]),
        *_jobs_dir_problems(spec, seen),
        *_glob_problems(seen["files"]),
        *(f"The checkpoint {path!r} is not there where the job runs. Choose another." for path in seen["missing"]),
        *_gpu_problems(spec, gpus),
        *_dialect.flag_problems(spec.framework, arguments, seen["version"]),
        *_port_problems(spec, seen["port"], rank),
    ]
    _refuse(problems)
    program = os.path.join(spec.bin_dir, spec.framework) if spec.bin_dir else spec.framework
    return Plan(
        argv=[program, spec.command, *_arguments.render(_arguments.expand(arguments, seen["files"]))],
        environment=dict(environment.values),
        nproc_per_node=_environment.process_count(spec, gpus),
        visible_gpus=gpus,
        trainer_version=seen["version"],
        container_image=runtime.image,
        files=seen["files"],
        checkpoints=seen["checkpoints"],
        warnings=list(environment.warnings),
        started_in=runtime.started_in(),
    )


def _probe_request(request: StartRequest, patterns: Sequence[str]) -> dict[str, Any]:
    spec = request.spec
    output = spec.arguments.get("output_dir") or spec.arguments.get("save")
    return {
        "framework": spec.framework,
        "bin_dir": spec.bin_dir,
        "globs": list(patterns),
        "paths": [request.resume_from] if request.resume_from else [],
        "jobs_dir": spec.jobs_dir,
        "output_dir": output,
        "address": spec.master_addr,
        "port": spec.master_port if spec.node_rank == 0 else None,
    }


def resume_arguments(framework: str, path: str | None, version: str | None) -> dict[str, Any]:
    """What makes the trainer go on from a checkpoint."""
    if path is None:
        return {}
    if framework == "swift":
        return {"resume_from_checkpoint": path}
    number = _dialect.parse_version(version)
    return {"load" if number is not None and number < (4, 0, 0) else "mcore_model": path, "finetune": False}


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise SwiftError(problems)


def _program_problems(spec: _job.JobSpec, program: str | None) -> list[str]:
    if program is not None:
        return []
    place = f"in the container {spec.container!r}" if spec.runtime == "docker" else "on this node"
    folder = f"in {spec.bin_dir}" if spec.bin_dir else "on the PATH"
    remedy = "Use an image that has ms-swift" if spec.runtime == "docker" else "Install ms-swift"
    return [
        f"The program {spec.framework!r} was not found {folder} {place}. {remedy}, or set bin_dir to the folder "
        "that holds it."
    ]


def _jobs_dir_problems(spec: _job.JobSpec, seen: Mapping[str, Any]) -> list[str]:
    if spec.runtime != "docker":
        return []
    inode = _probe.inode(spec.jobs_dir)
    if seen["jobs_dir"] == "ok" and (inode is None or inode == seen["jobs_dir_inode"]):
        return []
    how = {"missing": "is not there", "read-only": f"cannot be written by its user (uid {seen['uid']})"}.get(
        seen["jobs_dir"], "is another folder than the node's"
    )
    return [
        f"The jobs directory {spec.jobs_dir!r} {how} in the container {spec.container!r}. Mount the node's folder at "
        "the same path, writable (modelscope_container_jobs_dir), and recreate the container."
    ]


def _glob_problems(files: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"The pattern {pattern!r} matches no file where the job runs. Check the path, and that its disk is mounted."
        for pattern, paths in files.items()
        if not paths
    ]


def _gpu_problems(spec: _job.JobSpec, visible: Sequence[int]) -> list[str]:
    if not visible:
        return []  # no NVIDIA GPU at all: a run on CPUs, or on other accelerators
    shown = ", ".join(str(gpu) for gpu in visible)
    missing = [str(gpu) for gpu in spec.gpus or () if gpu not in visible]
    if missing:
        return [
            f"GPU {', '.join(missing)} is asked for, but this node shows only {len(visible)} ({shown}). Correct gpus, "
            "or mend the GPU."
        ]
    processes = _environment.process_count(spec, list(visible))
    if processes > len(visible):
        return [
            f"{processes} processes are asked for, but this node shows only {len(visible)} GPUs ({shown}). Lower "
            "nproc_per_node on all nodes (each node needs the same number), or mend the missing GPU."
        ]
    return []


def _port_problems(spec: _job.JobSpec, state: str | None, rank: RankDir) -> list[str]:
    if state == "not here":
        return [
            f"The master address {spec.master_addr!r} does not belong to this node, which has rank 0. Give an address "
            "of this node, or leave master_addr (train_master_addr) out so that it follows from the inventory."
        ]
    if state == "unknown name":
        return [
            f"The master address {spec.master_addr!r} cannot be resolved on this node. Give an IP address of rank 0."
        ]
    if state != "taken":
        return []
    owner = _procfs.port_owner(spec.master_port)
    if owner is not None and owner.pid in rank.processes():
        return []  # this very job, which is ended before the start
    who = str(owner) if owner else "a process that cannot be seen from here, or by a connection that is still closing"
    return [
        f"The master port {spec.master_port} is taken on this node (rank 0) by {who}. End that process, or choose "
        "another master_port (train_master_port)."
    ]


def _launch(request: StartRequest, rank: RankDir, seen: Observation, plan: Plan, runtime: _runtime.Runtime) -> str:
    """Write the job's files, start the supervisor, and wait for its first sign of life. Returns the state."""
    attempt = seen.attempt + 1
    rank.create()
    rank.keep_output(rank.observe().attempt)
    # First of all: should this module end half way, the job is lost, not finished with a specification that never ran.
    rank.write("status.json", {"schema": _supervisor.SCHEMA, "state": "starting", "attempt": attempt})
    rank.remove("stop.json")
    rank.remove("secrets.json")
    try:
        _write_start(request, rank, attempt, plan)
        runtime.launch(rank.path, rank.marker())
        return _handshake(rank, attempt, request.start_timeout)
    except BaseException:
        # A supervisor that lives needs them and removes them; one that comes too late finds none and starts nothing.
        _await_unlocked(rank, _LAST_BREATH)
        if not rank.lock_held():
            rank.remove("secrets.json")
        raise


def _write_start(request: StartRequest, rank: RankDir, attempt: int, plan: Plan) -> None:
    """What the supervisor needs: the secrets, itself, and what to start."""
    spec = request.spec
    if request.secrets:
        rank.write("secrets.json", {name: str(value) for name, value in request.secrets.items()})
    _supervisor.write_atomically(rank.file("supervisor.py"), _runtime.source("_supervisor"))
    rank.write(
        "spec.json",
        {
            "schema": _supervisor.SCHEMA,
            "name": spec.name,
            "node_rank": spec.node_rank,
            "attempt": attempt,
            "digest": spec.digest(),
            "spec": spec.as_dict(),
            "argv": plan.argv,
            "environment": plan.environment,
            "marker": rank.marker(),
            "drop": list(_environment.DROPPED),
            "facts": list(_environment.RANK_FACTS),
            "secret_names": sorted(request.secrets),
            "bin_dir": spec.bin_dir,
            "cwd": None if spec.runtime == "docker" else os.path.expanduser("~"),
            "stop_grace": request.stop_timeout,
            "started_in": plan.started_in,
            "plan": plan.result(),
        },
    )


def _handshake(rank: RankDir, attempt: int, seconds: float) -> str:
    """Wait until the supervisor has started the trainer. Returns the state."""
    give_up_at = time.monotonic() + seconds
    while True:
        seen = rank.observe()
        ended = seen.state in _states.ENDED
        if seen.attempt == attempt and (seen.state == "running" or ended):
            break
        if time.monotonic() > give_up_at:
            raise SwiftError(
                f"The supervisor of the job {rank.job!r} gave no sign of life within {seconds:g} s. {_log_words(rank)}",
                {"state": seen.state, "folder": rank.path},
            )
        time.sleep(_POLL)
    if ended and seen.status.get("returncode") is None and seen.status.get("signal") is None:
        raise SwiftError(
            f"The job {rank.job!r} could not be started on this node: {seen.reason}. {_log_words(rank)}",
            {"state": seen.state, "folder": rank.path},
        )
    return seen.state


def _log_words(rank: RankDir) -> str:
    lines = rank.tail("supervisor.log", 5)
    return (
        f"Its log {rank.file('supervisor.log')} ends with: {' / '.join(lines)}" if lines else "It has written no log."
    )


# --- stop -----------------------------------------------------------------------------------------------------------


def stop(jobs_dir_path: str, job: str, seconds: float, check_mode: bool, digest: str | None = None) -> dict[str, Any]:
    """End all that there is of a job on this node, and prove it. With a digest, only what was started with that one."""
    jobs_dir = JobsDir(jobs_dir_path)
    problems = [problem for problem in (_job.name_problem(job),) if problem]
    _refuse(problems)
    ranks = jobs_dir.ranks(job)
    if not ranks:
        return _stop_result(job, [], [], {})
    if check_mode:
        return _stop_result(job, ranks, [rank for rank in ranks if _meant(rank, digest) and _needs_stop(rank)], {})
    for rank in ranks:
        if rank.lock_held() and _meant(rank, digest):
            # Before the wait for the lock: who stops it already may have more patience than this request.
            _allow(rank, seconds)
    with jobs_dir.locked(_LOCK_SECONDS + seconds):
        stopped = [rank for rank in ranks if _meant(rank, digest) and _needs_stop(rank)]
        ports = {rank.path: _master_port(rank) for rank in stopped}
        for rank in stopped:
            _end_rank(rank, seconds, "stopped on request", granted=True)
        return _stop_result(job, ranks, stopped, ports)


def _meant(rank: RankDir, digest: str | None) -> bool:
    return digest is None or rank.observe().digest == digest


def _needs_stop(rank: RankDir) -> bool:
    state = rank.observe().state
    if state in _states.ENDED:
        _await_unlocked(rank, _LAST_BREATH)  # a supervisor that has just written its last word is no leftover
    return state in (*_states.LIVE, "lost") or bool(rank.processes())


def _stop_result(
    job: str, ranks: Sequence[RankDir], stopped: Sequence[RankDir], ports: Mapping[str, int | None]
) -> dict[str, Any]:
    seen = stopped[0].observe() if stopped else ranks[0].observe() if ranks else None
    state = seen.state if seen else "absent"
    words = {
        True: f"The job {job!r} was stopped on this node.",
        False: f"The job {job!r} does not run on this node ({state}).",
    }
    taken = [port for port in ports.values() if port and _probe.port_state("0.0.0.0", port) == "taken"]
    owners = {port: _procfs.port_owner(port) or "a process that cannot be seen from here" for port in taken}
    return {
        "changed": bool(stopped),
        "action": "stop" if stopped else "none",
        "msg": words[bool(stopped)],
        "state": state,
        "attempt": seen.attempt if seen else 0,
        "digest": seen.digest if seen else None,
        "secret_names": [],
        "differences": [],
        "folder": (stopped or ranks)[0].path if ranks else "",
        "warnings": [
            f"The port {port} of the stopped job is in use by {owners[port]}, which is no part of it." for port in taken
        ],
        "diff": {"before": {"running": [r.path for r in stopped]}, "after": {"running": []}},
        **_NO_PLAN,
    }


def _master_port(rank: RankDir) -> int | None:
    spec = (rank.read("spec.json") or {}).get("spec") or {}
    return int(spec["master_port"]) if spec.get("node_rank") == 0 and spec.get("master_port") else None


def _allow(rank: RankDir, seconds: float) -> None:
    """Leave for the supervisor how long the processes may take to end by themselves."""
    rank.write("stop.json", {"grace": seconds})


def _end_rank(rank: RankDir, seconds: float, reason: str, granted: bool = False) -> None:
    """Ask the supervisor to end everything, then look for what it may have missed. Raises if something is left."""
    if not granted or rank.read("stop.json") is None:
        _allow(rank, seconds)
    if rank.lock_held():
        _ask_supervisor(rank)
        _await_unlocked(rank, seconds + _STOP_MARGIN)
    left = _procfs.end_processes(rank.processes, grace=min(seconds, 5))
    if left:
        raise SwiftError(
            f"Processes of the job {rank.job!r} could not be ended even by SIGKILL: "
            f"{', '.join(str(_procfs.process(pid)) for pid in left)}. They hang in the kernel (a GPU or a network file "
            "system that does not answer): see dmesg; often only a restart of the node helps."
        )
    seen = rank.observe()
    if seen.state not in _states.ENDED:
        rank.write(
            "status.json",
            {
                **seen.status,
                "state": "stopped",
                "reason": f"{reason}; before, {seen.reason}",
                "ended_at": _supervisor.now(),
            },
        )
    rank.remove("secrets.json")


def _ask_supervisor(rank: RankDir) -> None:
    holder = _procfs.lock_holder(rank.file("lock"))
    if holder is None:
        return  # not visible from here, or gone in this instant: the scan for marked processes deals with it
    try:
        os.kill(holder, signal.SIGTERM)
    except ProcessLookupError:
        return


def _await_unlocked(rank: RankDir, seconds: float) -> None:
    give_up_at = time.monotonic() + seconds
    while rank.lock_held() and time.monotonic() < give_up_at:
        time.sleep(_POLL)
