# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the node: what the node itself has, and, when a container is named, what a process inside it gets.

One question as JSON on standard input, one answer as JSON on standard output: one trip to the node for both views.
Only the standard library.
"""

import json
import os
import shutil
import subprocess
import sys


def run(command, timeout, **keywords):
    """Exit code, output and error of a command; 124 when it took too long, 127 when it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, **keywords)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer within {timeout} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace").strip()


def device(path):
    """None when it is not there, else the names in the folder (none for a plain device)."""
    if not os.path.exists(path):
        return None
    if not os.path.isdir(path):
        return []
    return sorted(name for name in os.listdir(path) if not os.path.isdir(os.path.join(path, name)))


def gpus():
    """How many GPUs the driver knows."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0


def docker_root():
    """Docker's data folder and the bytes free there; asked only when something is about to be stored."""
    code, out, _error = run(["docker", "info", "--format", "{{.DockerRootDir}}"], 60)
    path = out.strip()
    if code != 0 or not os.path.isdir(path):
        return None, None
    return path, shutil.disk_usage(path).free


def inside(question):
    """The report from inside the container, or why there is none."""
    command = ["docker", "exec", "-i", question["container"], "python3", "-", json.dumps(question["inside"])]
    code, out, error = run(command, question["timeout"], input=question["script"].encode())
    if code != 0:
        return None, error or out.strip() or f"exit code {code}"
    try:
        return json.loads(out), None
    except ValueError:
        return None, f"no JSON but {out[:200]!r}"


def report(question):
    """The node's view, and the container's."""
    root, free = docker_root() if question["space"] else (None, None)
    answer = {
        "node": {
            "devices": {path: device(path) for path in question["devices"]},
            "paths": {path: os.path.exists(path) for path in question["paths"]},
            "sizes": {path: os.path.getsize(path) for path in question["paths"] if os.path.isfile(path)},
            "gpus": gpus(),
            "docker_root": root,
            "free": free,
        },
        "inside": None,
        "error": None,
    }
    if question["container"]:
        answer["inside"], answer["error"] = inside(question)
    return answer


if __name__ == "__main__":
    print(json.dumps(report(json.load(sys.stdin))))
