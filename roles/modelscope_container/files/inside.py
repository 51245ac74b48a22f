# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside the container, started the way training is: says in JSON what a process really gets there.

Only the standard library; Python 3.6 or newer. The question comes as JSON in the first argument.
"""

import contextlib
import errno
import json
import os
import pwd
import resource
import socket
import stat
import subprocess
import sys

LIMITS = {
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "stack": resource.RLIMIT_STACK,
    "nproc": resource.RLIMIT_NPROC,
    "core": resource.RLIMIT_CORE,
}


def limits():
    """Soft and hard limits; RLIM_INFINITY is -1."""
    return {name: list(resource.getrlimit(number)) for name, number in LIMITS.items()}


def cap_eff():
    """The effective capabilities of this process, as the kernel writes them."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("CapEff:"):
                return line.split()[1]
    return None


def shm_size():
    """Bytes that /dev/shm may hold."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def mounts():
    """Mount points and their file systems."""
    found = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.split()
            point = fields[4].replace("\\040", " ")
            found[point] = fields[fields.index("-") + 1]
    return found


def file_system(path, mounted):
    """The file system that a path lies on: its longest mount point's."""
    points = [point for point in mounted if path == point or path.startswith(point.rstrip("/") + "/")]
    return mounted[max(points, key=len)] if points else None


def may_open(path, name):
    """None, or the name of the error that opening a device gives. Only nodes that are harmless to open are opened."""
    if not stat.S_ISCHR(os.stat(path).st_mode) or name.startswith(("issm", "umad", "watchdog")):
        return None
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return None


def devices(paths):
    """Every device below the paths, with what opening it answers."""
    found = {}
    for path in paths:
        if os.path.isdir(path):
            found[path] = None
            for name in sorted(os.listdir(path)):
                child = os.path.join(path, name)
                if not os.path.isdir(child):
                    found[child] = may_open(child, name)
        elif os.path.exists(path):
            found[path] = may_open(path, os.path.basename(path))
    return found


def existing(path):
    """The path, or the nearest folder above it that is there: what the trainer would make the rest in."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


def write_error(folder):
    """None, or why no file can be made in the folder. Nothing stays behind."""
    name = os.path.join(folder, f".trainyard-{socket.gethostname()}-{os.getpid()}")
    try:
        with open(name, "x", encoding="utf-8") as probe:
            probe.write("probe")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
    return None


def outputs(paths, mounted, write):
    """For each output path: where it was tried, on what, and the error."""
    found = {}
    for path in paths:
        folder = existing(path)
        allowed = os.access(folder, os.W_OK)
        error = write_error(folder) if write else None if allowed else "Permission denied"
        found[path] = {"tried": folder, "filesystem": file_system(folder, mounted), "error": error}
    return found


def gpus():
    """How many GPUs nvidia-smi sees here, and its error."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except FileNotFoundError:
        return 0, None
    except (OSError, subprocess.SubprocessError) as error:
        return 0, str(error)
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        return 0, text.splitlines()[-1] if text else f"exit code {done.returncode}"
    return sum(line.startswith("GPU ") for line in text.splitlines()), None


def user():
    """The user that processes run as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def report(question):
    """Everything at once."""
    mounted = mounts()
    count, error = gpus()
    return {
        "python": sys.version.split()[0],
        "user": user(),
        "limits": limits(),
        "cap_eff": cap_eff(),
        "shm_size": shm_size(),
        "mounts": mounted,
        "devices": devices(question["devices"]),
        "outputs": outputs(question["outputs"], mounted, question["write"]),
        "gpus": count,
        "gpu_error": error,
    }


if __name__ == "__main__":
    print(json.dumps(report(json.loads(sys.argv[1]))))
