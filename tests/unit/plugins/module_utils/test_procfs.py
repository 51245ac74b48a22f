# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _procfs
from hypothesis import given
from hypothesis import strategies as st

# Captured on Debian 12 (kernel 6.18); addresses of processes replaced.
LOCKS = """\
1: FLOCK  ADVISORY  WRITE 4242 fe:00:1316421 0 EOF
2: POSIX  ADVISORY  READ 871 00:1c:1316421 128 128
3: FLOCK  ADVISORY  READ 4243 fe:00:1316421 0 EOF
4: FLOCK  ADVISORY  WRITE 0 fe:00:1316421 0 EOF
4: -> FLOCK  ADVISORY  WRITE 4245 fe:00:1316421 0 EOF
5: FLOCK  ADVISORY  WRITE 77 fe:00:99 0 EOF
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31337 1 0000000000000000 100 0
   1: 0100007F:733C 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 31338 1 0000000000000000 20 4
   2: 0100007F:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31339 1 0000000000000000 100 0
"""
MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:40 / /data rw,relatime shared:1 - nfs4 10.0.0.1:/export rw,vers=4.2
31 30 254:1 / /data/local rw - xfs /dev/vdb rw
32 22 0:41 / /mnt/with\\040blank rw - fuse.sshfs host:/ rw
33 22 0:42 / /merged rw - fuse.fuse-overlayfs none rw
34 22 254:1 / /data rw - ext4 /dev/vdc rw
broken line
35 22 254:1 / /x rw -
"""


def test_lock_pids() -> None:
    assert _procfs.lock_pids(LOCKS, 1316421) == [4242]
    assert _procfs.lock_pids(LOCKS, 1) == []


def test_listening_inodes() -> None:
    assert _procfs.listening_inodes(TCP, 29500) == {"31337"}
    assert _procfs.listening_inodes(TCP, 1) == set()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/data/local/jobs", "xfs"),
        ("/data/x", "ext4"),  # mounted over the network file system, so that this is what counts
        ("/database", "ext4"),
        ("/mnt/with blank/x", "fuse.sshfs"),
        ("/merged", "fuse.fuse-overlayfs"),
    ],
)
def test_file_system(path: str, kind: str) -> None:
    assert _procfs.file_system(path, MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        *[
            (kind, True)
            for kind in (
                "nfs",
                "nfs4",
                "cifs",
                "smb3",
                "ceph",
                "lustre",
                "gpfs",
                "beegfs",
                "wekafs",
                "panfs",
                "fuse.sshfs",
                "9p",
            )
        ],
        *[
            (kind, False)
            for kind in ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuse.fuse-overlayfs", "fuseblk")
        ],
    ],
)
def test_network_file_systems(kind: str, network: bool) -> None:
    assert bool(_procfs.NETWORK_FILE_SYSTEMS.match(kind)) is network


def test_the_folder_of_this_test_is_local(tmp_path: Path) -> None:
    assert _procfs.network_file_system(str(tmp_path / "not" / "there" / "yet")) is None


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        ("0::/\n", None),
        (f"0::/system.slice/docker-{'a1' * 32}.scope\n", "a1" * 32),
        (f"12:cpu:/docker/{'b2' * 32}\n", "b2" * 32),
        (f"0::/{'c3' * 33}\n", None),
    ],
)
def test_container_id(cgroup: str, found: str | None) -> None:
    assert _procfs.container_id(cgroup) == found


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    _procfs.lock_pids(text, 1)
    _procfs.file_system("/data", text)
    _procfs.container_id(text)


def test_folders_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    planned = _procfs.folder_id(str(one))
    assert planned is not None
    assert planned.endswith("/one")
    assert planned != _procfs.folder_id(str(two))
    one.mkdir()
    two.symlink_to(one)
    assert _procfs.folder_id(str(one)) == _procfs.folder_id(str(two)) != planned
    with monkeypatch.context() as other:
        other.setattr(_procfs, "boot_id", lambda: "another")
        assert _procfs.folder_id(str(one)) != _procfs.folder_id(str(two / ".." / "two" / "x"))
    monkeypatch.setattr(_procfs, "boot_id", lambda: "")
    assert _procfs.folder_id(str(one)) is None


def test_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert _procfs.lock_held(str(path)) is False
    assert _procfs.lock_holder(str(path)) is None
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert _procfs.lock_held(str(path)) is True
        assert _procfs.lock_holder(str(path)) == os.getpid()
    assert _procfs.lock_held(str(path)) is False
    assert _procfs.lock_holder(str(path)) is None


def test_port_owner() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert _procfs.port_owner(port) is None
        server.listen()
        owner = _procfs.port_owner(port)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert str(owner).startswith(f"process {os.getpid()} (")


def test_a_process_that_is_gone() -> None:
    assert _procfs.process(2**22 + 1) == _procfs.Process(2**22 + 1, "")
    assert str(_procfs.process(2**22 + 1)) == f"process {2**22 + 1} (name unknown)"
    assert _procfs.start_time(2**22 + 1) is None
    assert _procfs.running(2**22 + 1) is False
    assert _procfs._has_open(2**22 + 1, os.stat("/")) is False
    assert _procfs._has_link(2**22 + 1, set()) is False
    assert _procfs._environment(2**22 + 1) == set()


def test_this_process() -> None:
    assert _procfs.running(os.getpid()) is True
    assert (_procfs.start_time(os.getpid()) or 0) > 0
    assert len(_procfs.boot_id()) == 36
    assert len(_procfs.process(os.getpid()).command) <= 120


def test_end_processes_asks_before_it_kills() -> None:
    marker = {"TRAINYARD_UNIT": "yes", "TRAINYARD_UNIT_ID": str(os.getpid())}
    sleeper = os.posix_spawn("/bin/sleep", ["sleep", "60"], marker)
    stubborn = os.posix_spawn("/bin/sh", ["sh", "-c", "trap '' TERM; sleep 60 & wait; wait"], marker)
    bystander = os.posix_spawn("/bin/sleep", ["sleep", "60"], {"TRAINYARD_UNIT": "yes"})
    try:
        deadline = time.monotonic() + 5
        while len(_procfs.marked(marker)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _procfs.end_processes(lambda: _procfs.marked(marker), grace=0.5) == []
        assert os.WTERMSIG(os.waitpid(sleeper, 0)[1]) == signal.SIGTERM
        assert os.WTERMSIG(os.waitpid(stubborn, 0)[1]) == signal.SIGKILL
        assert _procfs.running(bystander)
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)
