# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the node: everything that the role docker_engine has to know about it, in one trip.

The question comes as JSON on standard input, the answer goes to standard output. Only the standard library.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata

JOURNAL_LINES = 8
COMPLAINT = re.compile(r"level=(error|fatal)|failed to start daemon|unable to |error ", re.IGNORECASE)
# What stands before the @ of an address, and passwords of proxies without a scheme.
CREDENTIALS = (
    re.compile(r"(://)[^/\s\"'@]+(?=@)"),
    re.compile(r"(https?-proxy\"\s*:\s*\")[^\"]+(?=@)", re.IGNORECASE),
    re.compile(r"(https?[-_]proxy=\"?)[^\s\"]+(?=@)", re.IGNORECASE),
)
LABEL = "io.trainyard.swift.digest"
CONTAINER = (
    '{"name":{{json .Name}},"labels":{{json .Config.Labels}},"pid":{{.State.Pid}},'
    '"path":{{json .Path}},"arguments":{{json .Args}}}'
)
PACKAGES = ("docker*", "containerd*", "runc", "nvidia-container*", "libnvidia-container*", "moby*")


def run(command, timeout=30):
    """Exit code, output and error; 124 when it took too long, 127 when it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} gave no answer within {timeout} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace").strip()


def read(path):
    """A file's text; None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return None


def binary(name):
    """Where a program is; a snap's is a link to snap itself, so its own path is kept."""
    found = shutil.which(name)
    if not found or found.startswith("/snap/"):
        return found
    return os.path.realpath(found)


def binaries():
    """The programs that matter, and whether docker is podman in disguise."""
    found = {name: binary(name) for name in ("docker", "dockerd", "nvidia-ctk", "systemctl")}
    docker = found["docker"] or ""
    head = (read(docker) or "")[:400] if docker and os.path.getsize(docker) < 4096 else ""
    return {**found, "podman": os.path.basename(docker) == "podman" or "podman" in head}


def info():
    """What the daemon says of itself, or why it says nothing."""
    code, out, error = run(["docker", "info", "--format", "{{json .}}"])
    try:
        answer = json.loads(out)
    except ValueError:
        return None, error or out.strip() or f"exit code {code}"
    keys = (
        "ServerVersion",
        "Driver",
        "CgroupDriver",
        "SecurityOptions",
        "DockerRootDir",
        "LiveRestoreEnabled",
        "CDISpecDirs",
    )
    said = {**{key: answer.get(key) for key in keys}, "Runtimes": sorted(answer.get("Runtimes") or [])}
    return said, error or "; ".join(answer.get("ServerErrors") or []) or None


def containers():
    """The running containers, and of ours what a look into them needs. Others' command lines are nobody's business."""
    found = []
    ids = lines_of(["docker", "ps", "--quiet", "--no-trunc"])
    lines = run(["docker", "inspect", "--format", CONTAINER, *ids])[1].splitlines() if ids else []
    for line in lines:
        try:
            container = json.loads(line)
        except ValueError:
            continue
        said = {"name": container["name"].lstrip("/"), "ours": LABEL in (container["labels"] or {})}
        if said["ours"]:
            said.update(pid=container["pid"], entrypoint=[container["path"], *(container["arguments"] or [])])
        found.append(said)
    return found


def nvidia(folders):
    """How Docker may give GPUs to containers without a runtime of that name: the toolkit's hook, or CDI."""
    specs = [
        os.path.join(folder, name) for folder in folders or [] if os.path.isdir(folder) for name in os.listdir(folder)
    ]
    return {
        "hook": binary("nvidia-container-runtime-hook"),
        "cdi": next((path for path in sorted(specs) if "nvidia.com/gpu" in (read(path) or "")), None),
    }


def hidden(value):
    """The same without passwords in addresses."""
    if isinstance(value, str):
        for pattern in CREDENTIALS:
            value = pattern.sub(r"\1***", value)
        return value
    if isinstance(value, dict):
        return {key: hidden(item) for key, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value


def service():
    """The service's state and last words; asked only when Docker is silent."""
    names = ("LoadState", "ActiveState", "SubState", "Result", "UnitFileState")
    code, out, _error = run(["systemctl", "show", "docker", "--property", ",".join(names)])
    state = dict(line.split("=", 1) for line in out.splitlines() if "=" in line) if code == 0 else {}
    _code, journal, _error = run(["journalctl", "-u", "docker", "-n", "80", "--no-pager", "-o", "cat"])
    return {**state, "journal": last_words(journal)}


def last_words(journal):
    """The daemon's own complaints, without systemd's about them; all lines when it made none."""
    lines = [re.sub(r'^time="[^"]*" ', "", line) for line in journal.splitlines()]
    complaints = [line for line in lines if COMPLAINT.search(line) and not line.startswith("docker.service:")]
    return list(dict.fromkeys(reversed(complaints or lines)))[:JOURNAL_LINES][::-1]


def command_line():
    """How the running dockerd was started."""
    pid = (read("/run/docker.pid") or "").strip()
    text = read(f"/proc/{pid}/cmdline") if pid.isdigit() else None
    return [word for word in (text or "").split("\0") if word]


def python():
    """The Python that Ansible uses, and the libraries that modules need there."""
    found = {"executable": sys.executable, "version": sys.version.split()[0]}
    for name in ("docker", "requests"):
        found[name] = None
        if importlib.util.find_spec(name) is not None:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found[name] = "unknown"
    return found


def lines_of(command):
    """The words of a command's output; empty when it is not there."""
    code, out, _error = run(command)
    return out.split() if code == 0 or out else []


def packages():
    """Installed packages around Docker, and those that are held."""
    if shutil.which("dpkg-query"):
        listed = run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${Package}\\n", *PACKAGES])[1].splitlines()
        rows = [line.split("|") for line in listed if "|" in line]
        installed = [name for state, name in rows if state[1:2] == "i"]
        return installed, [name for state, name in rows if state[:1] == "h"]
    if shutil.which("rpm"):
        locks = (read("/etc/dnf/plugins/versionlock.list") or "").split()
        installed = lines_of(["rpm", "-qa", "--qf", "%{NAME}\\n", *PACKAGES])
        return installed, [name for name in installed if any(f"{name}-" in lock for lock in locks)]
    return [], []


def noted(path):
    """What an earlier run of the role wrote down: packages it installed, a restart that is still due."""
    try:
        return json.loads(read(path) or "{}")
    except ValueError:
        return {}


def report(question):
    """Everything at once."""
    answer, error = info()
    silent = not (answer or {}).get("ServerVersion")
    installed, held = packages()
    notes = noted(question["notes"])
    said = {
        "binaries": binaries(),
        "info": answer,
        "error": error,
        "service": service() if silent else {},
        "command_line": command_line(),
        "daemon_config": {"text": read(question["daemon_config_path"])},
        "drop_in": read(question["drop_in_path"]),
        "python": python(),
        "packages": installed,
        "held": held,
        "installed": notes.get("packages", []),
        "pending": (read(question["pending"]) or "").strip() or None,
        "containers": [] if silent else containers(),
        "nvidia": nvidia((answer or {}).get("CDISpecDirs")),
    }
    if not question.get("hide"):
        return {**said, "hidden": False}
    shown = hidden(said)
    return {**shown, "hidden": any(shown[key] != said[key] for key in ("daemon_config", "drop_in"))}


if __name__ == "__main__":
    print(json.dumps(report(json.load(sys.stdin))))
