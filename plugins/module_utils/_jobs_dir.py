# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs directory of a node: C(<jobs_dir>/<job>/rank-<k>/) with all that is known about that part of the job."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import _procfs, _states, _supervisor
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._job import NAME_PATTERN

#: Held by those who start or stop a job.
LOCK = ".lock"
MARKER = "TRAINYARD_JOB"
MARKER_ID = "TRAINYARD_JOB_ID"
_RANK = re.compile(r"rank-(\d+)\Z")
_POLL = 0.1


@dataclass(frozen=True)
class Observation:
    """What one node's part of a job is at this moment."""

    state: str
    reason: str
    status: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def attempt(self) -> int:
        """The newest attempt that was ever begun; 0 before the first."""
        return max(int(self.status.get("attempt") or 0), int(self.spec.get("attempt") or 0))

    @property
    def digest(self) -> str | None:
        """The digest of the specification that was started last."""
        digest = self.spec.get("digest")
        return None if digest is None else str(digest)


class RankDir:
    """The folder of one rank of one job."""

    def __init__(self, jobs_dir: str, job: str, node_rank: int) -> None:
        self.job = job
        self.node_rank = node_rank
        self.path = os.path.join(jobs_dir, job, f"rank-{node_rank}")

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file in it, or nothing if it is missing or broken."""
        try:
            return _supervisor.read_json(self.file(name))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, name: str, data: Mapping[str, Any]) -> None:
        """Replace a JSON file in it at once."""
        _supervisor.write_atomically(self.file(name), json.dumps(data, indent=1) + "\n")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file(name))

    def exists(self) -> bool:
        """Whether this rank was ever started here."""
        return os.path.isdir(self.path)

    def lock_held(self) -> bool:
        """Whether a supervisor lives."""
        return _procfs.lock_held(self.file("lock"))

    def observe(self) -> Observation:
        """Look at this moment's state."""
        held = self.lock_held()
        status = self.read("status.json")
        spec = self.read("spec.json") or {}
        state, reason = _states.observe(status, held, self.exists(), loss_reason(spec.get("started_in") or {}))
        return Observation(state, reason, status or {}, spec)

    def observe_unlocked(self) -> Observation:
        """The same for those who do not hold the lock of the jobs directory themselves.

        Between its first file and the supervisor's lock a job is about to start, which is done under that lock.
        """
        seen = self.observe()
        if seen.state != "lost" or seen.status.get("state") != "starting":
            return seen
        if _procfs.lock_held(os.path.join(os.path.dirname(os.path.dirname(self.path)), LOCK)):
            return replace(seen, state="starting", reason="")
        return self.observe()  # the start may have come to its end between the two looks

    def marker(self) -> dict[str, str]:
        """Variables that mark every process of this rank; the id keeps jobs of the same name elsewhere apart."""
        known = self.read("id.json")
        return {} if known is None else {MARKER: f"{self.job}/rank-{self.node_rank}", MARKER_ID: str(known["id"])}

    def processes(self) -> list[int]:
        """Living processes of this rank."""
        marker = self.marker()
        return [pid for pid in _procfs.marked(marker) if _procfs.running(pid)] if marker else []

    def create(self) -> None:
        """Make the folder, for its owner alone, and its lasting id."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        if self.read("id.json") is None:
            self.write("id.json", {"id": uuid.uuid4().hex})

    def begun(self) -> int:
        """When the newest attempt was written down, in nanoseconds; 0 if there is none that can be read."""
        for name in ("spec.json", "status.json"):
            with contextlib.suppress(OSError):
                return os.stat(self.file(name)).st_mtime_ns
        return 0

    def keep_output(self, attempt: int) -> None:
        """Move the output of an earlier attempt out of the way."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.file("output.log"), self.file(f"output.{attempt}.log"))

    def tail(self, name: str, lines: int, size: int = 65536) -> list[str]:
        """The last lines of a text file in it."""
        if lines <= 0:
            return []
        return _lines(self.text(name, head=0, tail=size))[-lines:]

    def text(self, name: str, head: int, tail: int) -> str:
        """The beginning and the end of a text file, together if it is short."""
        try:
            with open(self.file(name), "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size <= head + tail:
                    return stream.read().decode("utf-8", errors="replace")
                first = stream.read(head)
                stream.seek(size - tail)
                last = stream.read(tail)
        except OSError:
            return ""
        # Cut at line ends: half a line could be read as a wrong number.
        whole = first[: first.rfind(b"\n") + 1] + last[last.find(b"\n") + 1 :]
        return whole.decode("utf-8", errors="replace")


class JobsDir:
    """All jobs of one node."""

    def __init__(self, path: str) -> None:
        self.path = path

    def problems(self) -> list[str]:
        """Why jobs cannot be kept here."""
        if not os.path.isabs(self.path):
            return [f"The jobs directory {self.path!r} is not an absolute path. Give one on this node's own disk."]
        kind = _procfs.network_file_system(self.path)
        if kind is None:
            return []
        return [
            f"The jobs directory {self.path!r} lies on a network file system ({kind}), where locks and atomic renames "
            "cannot be trusted. Choose a folder on this node's own disk; output may stay on the shared storage."
        ]

    def create(self) -> None:
        """Make the folder."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def ranks(self, job: str | None = None) -> list[RankDir]:
        """All ranks of all jobs, or of one job, by name and rank."""
        names = [job] if job is not None else _names(self.path)
        found = []
        for name in sorted(names):
            if re.fullmatch(NAME_PATTERN, name):
                matches = (_RANK.match(entry) for entry in _names(os.path.join(self.path, name)))
                found += [RankDir(self.path, name, rank) for rank in sorted(int(m.group(1)) for m in matches if m)]
        return found

    def busy_problems(self, own: RankDir) -> list[str]:
        """Other jobs (or other ranks of this job) that still occupy this node."""
        return [problem for rank in self.ranks() if rank.path != own.path for problem in _busy_problem(rank, own.job)]

    @contextlib.contextmanager
    def locked(self, seconds: float) -> Iterator[None]:
        """Start and stop one at a time on this node."""
        self.create()
        lock = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(lock, seconds, self.path)
            yield
        finally:
            os.close(lock)


def _busy_problem(rank: RankDir, own_job: str) -> list[str]:
    what = (
        f"job {rank.job!r}" if rank.job != own_job else f"job {rank.job!r} under another node rank ({rank.node_rank})"
    )
    remedy = f"Stop it first: swift_job with name={rank.job} and state=stopped, or 'stop.yml -e train_job={rank.job}'."
    observed = rank.observe()
    if observed.state in _states.LIVE:
        since = observed.status.get("started_at") or "an unknown time"
        return [f"The {what} is {observed.state} on this node since {since}. {remedy}"]
    left = rank.processes() if observed.state == "lost" else []
    if left:
        return [f"The {what} is lost, but {len(left)} of its processes still run on this node. {remedy}"]
    return []


def denied(exc: PermissionError) -> str:
    """What to tell a user who may not do what jobs need."""
    what = f" for {exc.filename!r}" if exc.filename else ""
    return f"Permission denied{what} on this node. Jobs belong to root there: set become to true, or use a jobs_dir of your own."


def loss_reason(started_in: Mapping[str, Any]) -> str:
    """What this node tells about why a supervisor is gone, compared with what it was started in."""
    if started_in.get("boot_id") and started_in["boot_id"] != _procfs.boot_id():
        return "the node was restarted in the meantime"
    init = started_in.get("init_pid")
    if init and _procfs.start_time(int(init)) != started_in.get("init_start"):
        return f"the container {started_in.get('container')!r} was stopped or restarted in the meantime"
    return "it was killed (by hand, or by the kernel for want of memory: see dmesg)"


def _take(lock: int, seconds: float, path: str) -> None:
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise SwiftError(
                    f"Another swift_job is starting or stopping a job in {path} and did not end within {seconds:g} s. "
                    "Wait for it, or find out what holds it up; then try again."
                ) from None
            time.sleep(_POLL)


def _names(folder: str) -> list[str]:
    """What is in a folder. One that may not be read is not an empty one: that error is for the caller."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _lines(text: str) -> list[str]:
    """Lines as a terminal would end up showing them: of a redrawn progress bar the last state."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")] if text else []
