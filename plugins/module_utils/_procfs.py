# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel tells in /proc: who holds a lock or a port, which processes belong to a job, what a path lies on."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.trainyard.swift.plugins.module_utils import _supervisor

#: File systems on which locks or atomic renames cannot be trusted.
NETWORK_FILE_SYSTEMS = re.compile(
    r"(nfs\d*|cifs|smb\d*|ceph|lustre|gpfs|beegfs|wekafs|panfs|9p|afs|ocfs2|gfs2|fuse\.(?!fuse-overlayfs\Z).+)\Z"
)
_CONTAINER_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LISTENING = "0A"
_POLL = 0.1


@dataclass(frozen=True)
class Process:
    """One process as a message names it."""

    pid: int
    command: str
    container_id: str | None = None

    def __str__(self) -> str:
        where = f", in container {self.container_id[:12]}" if self.container_id else ""
        return f"process {self.pid} ({self.command or 'name unknown'}{where})"


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def pids() -> Iterator[int]:
    """All processes in sight."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def process(pid: int) -> Process:
    """What a process is, as far as it can be read."""
    try:
        command = " ".join(_text(f"/proc/{pid}/cmdline").split("\0")).strip() or _text(f"/proc/{pid}/comm").strip()
        group = _text(f"/proc/{pid}/cgroup")
    except OSError:
        return Process(pid, "")
    return Process(pid, command if len(command) <= 120 else command[:117] + "...", container_id(group))


def container_id(cgroup: str) -> str | None:
    """The container a process is in, from the text of /proc/PID/cgroup."""
    match = _CONTAINER_ID.search(cgroup)
    return match.group() if match else None


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; nothing if there is no such process."""
    try:
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19]) if len(fields) > 19 else None


def boot_id() -> str:
    """A name for this boot of the machine."""
    try:
        return _text("/proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return ""


def folder_id(path: str) -> str | None:
    """A name for a folder that two nodes share only if it is one and the same folder; nothing where it cannot be told.

    Containers on one kernel have the same boot id, and then device and inode numbers tell their folders apart.
    For a folder that is not there yet, the nearest one above it counts, with the rest of the path.
    """
    boot = boot_id()
    above, rest = os.path.realpath(path), ""
    while not os.path.isdir(above) and above != "/":
        above, name = os.path.split(above)
        rest = f"/{name}{rest}"
    try:
        found = os.stat(above)
    except OSError:
        return None
    return f"{boot}:{found.st_dev}:{found.st_ino}{rest}" if boot else None


# --- locks ----------------------------------------------------------------------------------------------------------


def lock_held(path: str) -> bool:
    """Whether some process holds this lock at this moment: the kernel's answer, not a memory."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def lock_holder(path: str) -> int | None:
    """The process that holds this lock, by its pid as seen from here."""
    try:
        wanted = os.stat(path)
        candidates = lock_pids(_text("/proc/locks"), wanted.st_ino)
    except OSError:
        return None
    for pid in candidates:
        if _has_open(pid, wanted):
            return pid
    return None


def lock_pids(locks: str, inode: int) -> list[int]:
    """Processes with an exclusive flock on a file of this inode number, from the text of /proc/locks."""
    found = []
    for line in locks.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[1] != "FLOCK" or fields[3] != "WRITE":
            continue
        if fields[5].rpartition(":")[2] == str(inode) and int(fields[4]) > 0:
            found.append(int(fields[4]))
    return found


def _descriptors(pid: int) -> list[str]:
    """Paths of a process's open files; none where it is gone or may not be looked at."""
    folder = f"/proc/{pid}/fd"
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    for path in _descriptors(pid):
        try:
            if os.path.samestat(os.stat(path), wanted):
                return True
        except OSError:
            continue
    return False


# --- the processes of a job -----------------------------------------------------------------------------------------


def marked(marker: Mapping[str, str]) -> list[int]:
    """Processes with all these variables in the environment they were started with, in whatever container they run."""
    wanted = {f"{name}={value}".encode() for name, value in marker.items()}
    return [pid for pid in pids() if pid != os.getpid() and wanted <= _environment(pid)]


def _environment(pid: int) -> set[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return set(stream.read().split(b"\0"))
    except OSError:
        return set()


def end_processes(find: Callable[[], Sequence[int]], grace: float, kill_seconds: float = 10.0) -> list[int]:
    """End all processes that C(find) names: SIGTERM, then SIGKILL. Returns those that are still there."""
    kill_at = time.monotonic() + grace
    asked: set[int] = set()
    while True:
        left = [pid for pid in find() if running(pid)]
        instant = time.monotonic()
        if not left or instant > kill_at + kill_seconds:
            return left
        if instant >= kill_at:
            _signal(left, signal.SIGKILL)
        else:
            fresh = [pid for pid in left if pid not in asked]
            _signal(fresh, signal.SIGTERM)
            _signal(fresh, signal.SIGCONT)
            asked.update(fresh)
        time.sleep(_POLL)


def running(pid: int) -> bool:
    """Whether a process is there and has not ended yet (one that nobody has waited for counts as ended)."""
    try:
        parsed = _supervisor.parse_stat(_text(f"/proc/{pid}/stat"))
    except OSError:
        return False
    return parsed is not None and parsed[1]


def _signal(targets: Iterable[int], number: int) -> None:
    for pid in targets:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


# --- ports ----------------------------------------------------------------------------------------------------------


def port_owner(port: int) -> Process | None:
    """The process that listens on a TCP port of this node, in whatever container it runs."""
    inodes: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            inodes |= listening_inodes(_text(f"/proc/net/{name}"), port)
        except OSError:
            continue
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    return next((process(pid) for pid in pids() if _has_link(pid, links)), None)


def listening_inodes(table: str, port: int) -> set[str]:
    """Inodes of the sockets that listen on a port, from the text of /proc/net/tcp or tcp6."""
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            found.add(fields[9])
    return found


def _has_link(pid: int, links: set[str]) -> bool:
    for path in _descriptors(pid):
        try:
            if os.readlink(path) in links:
                return True
        except OSError:
            continue
    return False


# --- file systems ---------------------------------------------------------------------------------------------------


def file_system(path: str, mountinfo: str) -> str:
    """The type of the file system that a path lies on, from the text of /proc/self/mountinfo."""
    best, kind = "", "unknown"
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = _unescape(fields[4])
        if _below(path, point) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point.rstrip("/") + "/")


def network_file_system(path: str) -> str | None:
    """The type of the network file system that a path (or the nearest folder that exists) lies on, or nothing."""
    kind = file_system(os.path.realpath(path), _text("/proc/self/mountinfo"))
    return kind if NETWORK_FILE_SYSTEMS.match(kind) else None
