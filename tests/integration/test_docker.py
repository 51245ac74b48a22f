# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtime docker, against the Docker Engine of this machine.

Without a Docker Engine these tests fail; TRAINYARD_NO_DOCKER=1 says that this is known, and skips them. The image is
the first that is there of TRAINYARD_TEST_IMAGE and the local cluster's own; it needs python3 and nothing else.
"""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _procfs, _runtime
from harness import ModuleFailed, Node, wait_until

pytestmark = pytest.mark.docker

_IMAGES = ("trainyard-node:bookworm", "python:3.11-slim")


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """The Docker Engine of this machine."""
    if os.environ.get("TRAINYARD_NO_DOCKER") == "1":
        pytest.skip("TRAINYARD_NO_DOCKER=1: the runtime docker is NOT tested here")
    client = docker.from_env()
    client.ping()
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: Any) -> str:
    """An image with python3."""
    wanted = [name for name in (os.environ.get("TRAINYARD_TEST_IMAGE"), *_IMAGES) if name]
    for name in wanted:
        try:
            engine.images.get(name)
        except docker.errors.ImageNotFound:
            continue
        return name
    pytest.fail(
        f"None of the images {', '.join(wanted)} is there. Bring the local cluster up, or set TRAINYARD_TEST_IMAGE."
    )


class ContainerNode(Node):
    """A node whose jobs run in a container."""

    def __init__(self, folder: Path, engine: Any, image: str) -> None:
        super().__init__(folder)
        for name in ("swift", "megatron"):
            program = self.bin_dir / name
            lines = program.read_text(encoding="utf-8").splitlines(keepends=True)
            program.write_text("".join(["#!/usr/bin/env python3\n", *lines[1:]]), encoding="utf-8")
        self.jobs_dir.mkdir(mode=0o700)
        self.engine = engine
        self.image = image
        self.name = f"trainyard-test-{uuid.uuid4().hex[:8]}"
        self.container: Any = None
        self.job_options["runtime"] = "docker"
        self.job_options["container"] = self.name

    def create(self, **options: Any) -> None:
        """Create and start the container."""
        mounts = {str(self.folder): {"bind": str(self.folder), "mode": "rw"}}
        self.container = self.engine.containers.run(
            self.image,
            entrypoint=["sleep", "infinity"],
            name=self.name,
            detach=True,
            init=True,
            environment={"RANK": "7", "http_proxy": "http://192.0.2.1", "CONTAINERS_OWN": "yes"},
            **{"network_mode": "host", "volumes": mounts, **options},
        )

    def remove(self) -> None:
        """Remove the container."""
        if self.container is not None:
            self.container.remove(force=True)


@pytest.fixture
def bare(tmp_path: Path, engine: Any, image: str) -> Iterator[ContainerNode]:
    """A node whose container is not there yet."""
    made = ContainerNode(tmp_path, engine, image)
    yield made
    if made.rank().exists():
        made.stop(stop_timeout=1)
        assert made.rank().processes() == []
    made.remove()


@pytest.fixture
def node(bare: ContainerNode) -> ContainerNode:
    """A node with a running container."""
    bare.create()
    return bare


def test_a_job_runs_in_the_container(node: ContainerNode) -> None:
    extra = {"secrets": {"API_KEY": "open-sesame"}}
    result = node.start(seconds=300, children=2, depth=2, extra=extra)
    assert (result["action"], result["state"]) == ("start", "running")
    assert result["container_image"].startswith("sha256:")
    facts = node.facts()
    environment = facts["environment"]
    assert {"RANK", "http_proxy"}.isdisjoint(environment)
    assert (environment["CONTAINERS_OWN"], environment["API_KEY"]) == ("yes", "open-sesame")
    assert facts["open_files"][0] == facts["open_files"][1]
    job = node.info()
    assert (job["state"], job["processes"]) == ("running", 7)
    owner = _procfs.process(node.rank().processes()[0])
    assert owner.container_id == node.container.id
    execs = [node.engine.api.exec_inspect(number) for number in node.container.attrs.get("ExecIDs") or []]
    assert "open-sesame" not in str(execs) + str(result)
    assert (
        node.start(seconds=300, children=2, depth=2, extra={"secrets": {"API_KEY": "open-sesame"}})["action"]
        == "attach"
    )


def test_stop_in_the_container(node: ContainerNode) -> None:
    node.start(seconds=300, children=2, depth=2)
    node.facts()
    pids = node.rank().processes()
    assert node.stop()["state"] == "stopped"
    assert node.gone(pids)
    assert node.stop()["changed"] is False


def test_exit_code_from_the_container(node: ContainerNode) -> None:
    node.start(exit=3)
    node.wait_for_state("failed")
    assert node.info()["returncode"] == 3


@pytest.mark.parametrize("ignore_term", [False, True])
def test_kill_of_the_supervisor_in_the_container(node: ContainerNode, ignore_term: bool) -> None:
    node.start(seconds=300, children=2, depth=2, ignore_term=ignore_term)
    node.facts()
    pids = node.rank().processes()
    holder = _procfs.lock_holder(node.rank().file("lock"))
    assert holder in pids
    os.kill(holder, signal.SIGKILL)
    node.wait_for_state("lost")
    assert "it was killed" in node.info()["reason"]
    assert wait_until(lambda: node.gone(pids)) < 5


@pytest.mark.parametrize("how", ["restart", "stop", "remove"])
def test_the_container_goes_away_in_mid_run(node: ContainerNode, how: str) -> None:
    node.start(seconds=300, children=1)
    node.facts()
    if how == "restart":
        node.container.restart(timeout=1)
    elif how == "stop":
        node.container.stop(timeout=1)
    else:
        node.remove()
        node.container = None
    node.wait_for_state("lost")
    reason = node.info()["reason"]
    assert f"the container '{node.name}' was stopped or restarted in the meantime" in reason
    result = node.stop()
    assert (result["changed"], result["state"]) == (True, "stopped")
    if how == "restart":
        assert node.start(children=1)["attempt"] == 2
    elif how == "stop":
        assert f"The container '{node.name}' on this node is not running (it is exited" in node.refusal()["msg"]
    else:
        assert f"no container named '{node.name}'" in node.refusal()["msg"]


def test_orphans_in_the_container_are_found_from_outside(node: ContainerNode) -> None:
    node.start(seconds=300, children=2, depth=2)
    node.facts()
    pids = node.rank().processes()
    holder = _procfs.lock_holder(node.rank().file("lock"))
    guards = [pid for pid in pids if _parent(pid) == holder]
    assert holder is not None
    for pid in (holder, *guards):
        os.kill(pid, signal.SIGSTOP)
    for pid in (*guards, holder):
        os.kill(pid, signal.SIGKILL)
    node.wait_for_state("lost")
    assert not node.gone(pids)
    assert node.stop()["changed"] is True
    assert node.gone(pids)


def test_a_paused_container(node: ContainerNode) -> None:
    node.container.pause()
    assert f"'docker unpause {node.name}'" in node.refusal()["msg"]
    node.container.unpause()


def test_the_jobs_directory_is_not_mounted(bare: ContainerNode) -> None:
    bare.create(volumes={str(bare.bin_dir): {"bind": str(bare.bin_dir), "mode": "ro"}})
    assert "is not there in the container" in bare.refusal()["msg"]


def test_another_folder_is_mounted_in_place_of_the_jobs_directory(bare: ContainerNode) -> None:
    (bare.folder / "other").mkdir()
    bare.create(
        volumes={
            str(bare.folder): {"bind": str(bare.folder), "mode": "rw"},
            str(bare.folder / "other"): {"bind": str(bare.jobs_dir), "mode": "rw"},
        }
    )
    assert "is another folder than the node's in the container" in bare.refusal()["msg"]


def test_the_jobs_directory_is_mounted_read_only(bare: ContainerNode) -> None:
    bare.create(
        volumes={
            str(bare.bin_dir): {"bind": str(bare.bin_dir), "mode": "ro"},
            str(bare.jobs_dir): {"bind": str(bare.jobs_dir), "mode": "ro"},
        }
    )
    assert "cannot be written by its user (uid 0)" in bare.refusal()["msg"]


def test_the_trainer_is_not_in_the_container(node: ContainerNode) -> None:
    message = node.refusal(extra={"bin_dir": None})["msg"]
    assert f"The program 'swift' was not found on the PATH in the container '{node.name}'. Use an image" in message


def test_a_port_taken_in_another_container_is_named(node: ContainerNode) -> None:
    code = f"import socket,time; s=socket.socket(); s.bind(('127.0.0.1',{node.port})); s.listen(); time.sleep(60)"
    node.container.exec_run(["python3", "-c", code], detach=True)

    def taken() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", node.port)) == 0

    wait_until(taken)
    assert f"in container {node.container.id[:12]}" in node.refusal()["msg"]


def test_no_python_in_the_container(bare: ContainerNode) -> None:
    bare.create()
    bare.container.exec_run(["sh", "-c", "rm -f $(command -v python3)"])
    assert "needs python3 on its PATH" in bare.refusal()["msg"]


def test_a_docker_engine_that_does_not_answer(node: ContainerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{node.folder}/no.sock")
    assert "The Docker Engine of this node does not answer" in node.refusal()["msg"]


def test_no_docker_library(node: ContainerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "DOCKER_IMPORT_ERROR", "Traceback")
    with pytest.raises(ModuleFailed, match=r"Failed to import the required Python library \(docker\)"):
        node.start()


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
        return int(stream.read().rpartition(")")[2].split()[1])
