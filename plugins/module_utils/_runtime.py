# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where training processes live: in the container, or on the host itself."""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import resource
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.trainyard.swift.plugins.module_utils import _probe, _procfs
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError

DOCKER_IMPORT_ERROR: str | None = None
try:
    import docker
except ImportError:
    DOCKER_IMPORT_ERROR = traceback.format_exc()

RunCommand = Callable[..., "tuple[int, str, str]"]

#: All that a process on the host gets of the environment in which the module happens to run.
HOST_ENVIRONMENT: tuple[str, ...] = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "USER",
)
_SYSTEMD = "/run/systemd/system"
_CAP_SYS_RESOURCE = 24
_PACKAGE = "ansible_collections.trainyard.swift.plugins.module_utils"


class Runtime(Protocol):
    """A place to run the trainer in."""

    image: str | None

    def started_in(self) -> dict[str, Any]:
        """Facts by which a later look tells whether this is still the same place."""

    def probe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Look at it from the inside (see _probe.py)."""

    def launch(self, directory: str, marker: Mapping[str, str]) -> None:
        """Start the supervisor in DIRECTORY, detached from everything that started it."""

    def close(self) -> None:
        """Let go of connections."""


def source(name: str) -> str:
    """The source text of a private file of this collection, which travels with the module."""
    # Asked of the file itself: the package has no loader of its own where it is imported from a checkout.
    data = pkgutil.get_data(f"{_PACKAGE}.{name}", f"{name}.py")
    if data is None:
        raise SwiftError(f"The file {name}.py did not come along with the module. This is a defect: please report it.")
    return data.decode("utf-8")


class HostRuntime:
    """The host itself, without a container."""

    image: str | None = None

    def __init__(self, run_command: RunCommand, warn: Callable[[str], None]) -> None:
        self._run_command = run_command
        self._warn = warn

    def started_in(self) -> dict[str, Any]:
        """Facts about this boot."""
        return {"runtime": "host", "boot_id": _procfs.boot_id()}

    def probe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the host."""
        return _probe.probe(request)

    def launch(self, directory: str, marker: Mapping[str, str]) -> None:
        """Start the supervisor as a unit of systemd, out of reach of logind; else in a session of its own."""
        if os.path.isdir(_SYSTEMD) and os.geteuid() == 0 and self._launch_unit(directory, marker):
            return
        self._launch_detached(directory, marker)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _launch_unit(self, directory: str, marker: Mapping[str, str]) -> bool:
        program = shutil.which("systemd-run")
        if program is None:
            return False
        environment = {**host_environment(os.environ), **marker}
        argv = [
            program,
            *unit_options(directory, may_raise_limits()),
            *(f"--setenv={k}={v}" for k, v in environment.items()),
        ]
        code, _out, error = self._run_command(
            [*argv, sys.executable, os.path.join(directory, "supervisor.py"), directory]
        )
        if code != 0:
            self._warn(f"systemd-run failed ({error.strip()}): the supervisor is started without a unit of its own.")
        return code == 0

    def _launch_detached(self, directory: str, marker: Mapping[str, str]) -> None:
        argv = [sys.executable, os.path.join(directory, "supervisor.py"), "--detach", directory]
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        environment = {**host_environment(os.environ), **marker}
        pid = os.posix_spawn(sys.executable, argv, environment, file_actions=null, setsid=True)
        os.waitpid(pid, 0)


def host_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What a supervisor on the host gets of the module's environment, which depends on the ssh session and on sudo."""
    return {name: inherited[name] for name in HOST_ENVIRONMENT if name in inherited}


def unit_options(directory: str, raise_limits: bool) -> list[str]:
    """Options of systemd-run: end the supervisor gently, let it end the rest, and give it no limits."""
    job, rank = directory.rstrip("/").split("/")[-2:]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    memory = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    locked = "infinity" if raise_limits or memory == resource.RLIM_INFINITY else str(memory)
    number = hashlib.sha256(f"{directory} {os.getpid()}".encode()).hexdigest()[:8]
    properties = {
        "Description": f"trainyard job {job} {rank}",
        "KillMode": "mixed",
        "TimeoutStopSec": "60",
        "OOMPolicy": "continue",
        "TasksMax": "infinity",
        "LimitNOFILE": "infinity" if files == resource.RLIM_INFINITY else str(files),
        "LimitMEMLOCK": locked,
    }
    return [
        f"--unit=trainyard-{job}-{rank}-{number}",
        "--quiet",
        "--collect",
        "--service-type=exec",
        *(f"--property={name}={value}" for name, value in properties.items()),
    ]


def may_raise_limits() -> bool:
    """Whether this process may go beyond hard limits (not so in many sandboxes)."""
    with open("/proc/self/status", encoding="utf-8") as stream:
        effective = [line.split()[1] for line in stream if line.startswith("CapEff:")]
    return bool(effective) and bool(int(effective[0], 16) >> _CAP_SYS_RESOURCE & 1)


class DockerRuntime:
    """A running container, reached through Docker's own API."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = docker_client()
        try:
            self._container = self._find()
        except SwiftError:
            self.close()
            raise
        self.image: str | None = self._image()

    def close(self) -> None:
        """Let go of the connection to Docker."""
        self._client.close()

    def _find(self) -> Any:
        try:
            container = self._client.containers.get(self._name)
        except docker.errors.NotFound:
            raise SwiftError(
                f"There is no container named {self._name!r} on this node. Create it first (role modelscope_container, "
                "or provision.yml), or name another with the option container."
            ) from None
        except (docker.errors.DockerException, OSError) as exc:
            raise SwiftError(_not_answering(exc)) from exc
        state = container.attrs.get("State", {})
        problem = container_problem(self._name, state)
        if problem:
            raise SwiftError(problem)
        return container

    def _image(self) -> str:
        """A name for the image's content: equal for the same layers, whatever Docker's storage calls the image."""
        image_id = str(self._container.attrs.get("Image", ""))
        try:
            layers = self._client.images.get(image_id).attrs["RootFS"]["Layers"]
        except (docker.errors.DockerException, OSError, KeyError, TypeError):
            return image_id
        return layers_digest(layers)

    def started_in(self) -> dict[str, Any]:
        """Facts about the container as it runs now."""
        init = int(self._container.attrs.get("State", {}).get("Pid") or 0)
        return {
            "runtime": "docker",
            "boot_id": _procfs.boot_id(),
            "container": self._name,
            "container_id": self._container.id,
            "init_pid": init,
            "init_start": _procfs.start_time(init) if init else None,
        }

    def probe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the container from the inside."""
        try:
            code, (out, error) = self._container.exec_run(
                ["python3", "-c", source("_probe"), json.dumps(request)], demux=True
            )
        except (docker.errors.DockerException, OSError) as exc:
            raise SwiftError(
                f"No command can be run in the container {self._name!r}: {exc}. Look at 'docker logs'."
            ) from exc
        return answer(self._name, code, out or b"", error or b"")

    def launch(self, directory: str, marker: Mapping[str, str]) -> None:
        """Start the supervisor by a detached exec."""
        argv = ["python3", os.path.join(directory, "supervisor.py"), directory]
        try:
            self._container.exec_run(argv, detach=True, environment=dict(marker))
        except (docker.errors.DockerException, OSError) as exc:
            raise SwiftError(f"The supervisor could not be started in the container {self._name!r}: {exc}.") from exc


def docker_client() -> Any:
    """A client of this node's Docker Engine."""
    if DOCKER_IMPORT_ERROR is not None:
        raise SwiftError(
            f"{missing_required_lib('docker')} The role docker_engine installs it.", {"exception": DOCKER_IMPORT_ERROR}
        )
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (docker.errors.DockerException, OSError) as exc:
        raise SwiftError(_not_answering(exc)) from exc
    return client


def _not_answering(exc: Exception) -> str:
    return (
        f"The Docker Engine of this node does not answer: {exc}. See 'systemctl status docker' and whether this user "
        "may reach its socket (become), or set runtime=host to run without a container."
    )


def container_problem(name: str, state: Mapping[str, Any]) -> str | None:
    """Why nothing can be started in a container, from its inspected state."""
    status = str(state.get("Status") or "unknown")
    if status == "running" and not state.get("Paused"):
        return None
    since = state.get("FinishedAt")
    detail = f", since {since}" if status == "exited" and since else ""
    remedy = (
        f"'docker unpause {name}'"
        if status == "paused" or state.get("Paused")
        else f"'docker start {name}' or provision.yml"
    )
    return f"The container {name!r} on this node is not running (it is {status}{detail}). Bring it up with {remedy}."


def layers_digest(layers: Sequence[str]) -> str:
    """One digest for an image's layers."""
    return "sha256:" + hashlib.sha256("\n".join(layers).encode()).hexdigest()


def answer(name: str, code: int, out: bytes, error: bytes) -> dict[str, Any]:
    """The probe's answer from a container."""
    try:
        return dict(json.loads(out)) if code == 0 else _no_answer(name, code, out, error)
    except ValueError:
        return _no_answer(name, code, out, error)


def _no_answer(name: str, code: int, out: bytes, error: bytes) -> dict[str, Any]:
    words = (error or out).decode("utf-8", errors="replace").strip().splitlines()
    hint = "It needs python3 on its PATH. " if code in (126, 127) else ""
    raise SwiftError(
        f"The container {name!r} could not be looked at from the inside: 'python3' there ended with exit code {code}: "
        f"{words[-1] if words else 'no output'}. {hint}Try 'docker exec {name} python3 --version'."
    )
