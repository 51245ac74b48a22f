# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_proof as container_proof
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_spec as container_spec

FULL = "000001ffffffffff"
DOCKER_DEFAULT = "00000000a80425fb"
WITH_IPC_LOCK = "00000000a80465fb"


def spec(**options: Any) -> dict[str, Any]:
    built = container_spec.build(
        {
            "image": "swift:1",
            "privileged": True,
            "gpus": "all",
            "shm_size": "64g",
            "devices": ["/dev/infiniband"],
            "volumes": ["/data:/data"],
            "ulimits": ["memlock:-1:-1", "nofile:1048576:1048576", "rss:1:1"],
            "jobs_dir": "/jobs",
            **options,
        }
    )
    result: dict[str, Any] = built["spec"]
    return result


# Synthetic: a node with eight GPUs and two InfiniBand devices.
GOOD: dict[str, Any] = {
    "node": {
        "devices": {"/dev/infiniband": ["rdma_cm", "uverbs0", "uverbs1"]},
        "paths": {"/data": True, "/jobs": False},
        "gpus": 8,
    },
    "inside": {
        "user": "root",
        "limits": {"memlock": [-1, -1], "nofile": [1048576, 1048576]},
        "cap_eff": FULL,
        "shm_size": 64 << 30,
        "mounts": {"/data": "nfs4", "/jobs": "ext4"},
        "devices": {
            "/dev/infiniband": None,
            "/dev/infiniband/rdma_cm": None,
            "/dev/infiniband/uverbs0": None,
            "/dev/infiniband/uverbs1": None,
        },
        "outputs": {"/data/out": {"tried": "/data", "filesystem": "nfs4", "error": None}},
        "gpus": 8,
        "gpu_error": None,
    },
    "error": None,
}


def report(**inside: Any) -> dict[str, Any]:
    changed = copy.deepcopy(GOOD)
    changed["inside"].update(inside)
    return changed


def test_a_good_container_has_no_problem() -> None:
    assert container_proof.proof(GOOD, spec()) == []


@pytest.mark.parametrize(
    ("mask", "names"),
    [("0", set()), ("4000", {"IPC_LOCK"}), (DOCKER_DEFAULT, None), (FULL, set(container_proof.CAPABILITIES))],
)
def test_capability_masks(mask: str, names: set[str] | None) -> None:
    found = container_proof.capabilities(mask)
    assert found == names if names is not None else "IPC_LOCK" not in found and "CHOWN" in found


@pytest.mark.parametrize(
    ("inside", "options", "words"),
    [
        ({"shm_size": 64 << 20}, {}, "/dev/shm is 0.1 GiB, not the 64.0 GiB"),
        ({"shm_size": None}, {}, "no /dev/shm"),
        (
            {"limits": {"memlock": [8388608, 8388608]}},
            {},
            "memlock 8388608 (hard 8388608), not unlimited (hard unlimited)",
        ),
        ({"limits": {"nofile": [1024, 1048576]}}, {}, "nofile 1024 (hard 1048576)"),
        ({"cap_eff": DOCKER_DEFAULT}, {}, "lacks the capabilities IPC_LOCK, SYS_ADMIN"),
        (
            {"cap_eff": DOCKER_DEFAULT},
            {"privileged": False, "capabilities": ["IPC_LOCK"]},
            "lacks the capabilities IPC_LOCK",
        ),
        ({"cap_eff": None}, {"privileged": False, "capabilities": ["IPC_LOCK"]}, "lacks the capabilities IPC_LOCK"),
        ({}, {"privileged": False}, "the container is privileged, though"),
        (
            {"devices": {}},
            {},
            "/dev/infiniband/rdma_cm, /dev/infiniband/uverbs0, /dev/infiniband/uverbs1 is on the node but",
        ),
        (
            {"devices": {**GOOD["inside"]["devices"], "/dev/infiniband/uverbs1": "EPERM"}},
            {},
            "/dev/infiniband/uverbs1 is visible in the container but may not be opened",
        ),
        ({"mounts": {"/jobs": "ext4"}}, {}, "/data is not mounted in the container"),
        (
            {"outputs": {"/data/out": {"tried": "/data", "filesystem": "nfs4", "error": "Permission denied"}}},
            {},
            "root_squash",
        ),
        (
            {"outputs": {"/data/out": {"tried": "/data", "filesystem": None, "error": "Read-only file system"}}},
            {},
            "cannot write to /data/out (tried /data, unknown file system): Read-only file system",
        ),
        ({"gpus": 7}, {}, "sees 7 GPUs, not the 8"),
        ({"gpus": None}, {"gpus": 2}, "sees 0 GPUs, not the 2"),
        ({"gpus": 8}, {"gpus": ["0"], "privileged": False, "capabilities": ["SYS_ADMIN"]}, "sees 8 GPUs, not the 1"),
        ({"gpu_error": "Driver/library version mismatch"}, {}, "nvidia-smi fails in the container: Driver/library"),
    ],
)
def test_each_shortcoming_is_told(inside: dict[str, Any], options: dict[str, Any], words: str) -> None:
    problems = container_proof.proof(report(**inside), spec(**options))
    assert len(problems) == 1, problems
    assert words in problems[0]


@pytest.mark.parametrize(
    ("inside", "options"),
    [
        ({"shm_size": 1}, {"ipc_mode": "host"}),
        ({"cap_eff": WITH_IPC_LOCK}, {"privileged": False, "capabilities": ["IPC_LOCK"]}),
        ({}, {"privileged": False, "capabilities": ["ALL"]}),
        ({"gpus": 0}, {"gpus": "none"}),
        # Privileges show every GPU, whatever was asked for.
        ({"gpus": 8}, {"gpus": [0, 1]}),
        ({"devices": {}}, {"devices": []}),
        ({"limits": {}}, {}),
        ({"limits": {"memlock": [1, 1]}}, {"ulimits": []}),
    ],
)
def test_what_was_not_asked_is_no_problem(inside: dict[str, Any], options: dict[str, Any]) -> None:
    assert container_proof.proof(report(**inside), spec(**options)) == []


def test_all_problems_at_once() -> None:
    bad = report(shm_size=1, limits={"memlock": [1, 1], "nofile": [1, 1]}, cap_eff="0", devices={}, mounts={}, gpus=0)
    assert len(container_proof.proof(bad, spec())) == 8


def test_a_node_without_gpus() -> None:
    bad = report(gpus=0)
    bad["node"]["gpus"] = 0
    assert "the node has none that its driver knows" in container_proof.proof(bad, spec())[0]


@pytest.mark.parametrize(("privileged", "hidden"), [(True, True), (False, False)])
def test_a_device_that_the_node_lacks(privileged: bool, hidden: bool) -> None:
    bad = copy.deepcopy(GOOD)
    bad["node"]["devices"] = {"/dev/infiniband": None}
    options = {"privileged": privileged, "capabilities": [] if privileged else ["SYS_ADMIN"]}
    problem = container_proof.proof(bad, spec(**options))[0]
    assert problem.startswith("the node has no /dev/infiniband")
    assert ("would not even say so" in problem) is hidden


def test_a_single_device_is_itself() -> None:
    good = report(devices={"/dev/fuse": "EPERM"})
    good["node"]["devices"] = {"/dev/fuse": []}
    assert "/dev/fuse is visible" in container_proof.proof(good, spec(devices=["/dev/fuse"]))[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ('exec: "python3": executable file not found in $PATH', "its image has no python3"),
        ("no answer within 120 s", "did not run: no answer within 120 s"),
        (None, "did not run: no answer"),
    ],
)
def test_no_report_from_inside(error: str | None, words: str) -> None:
    problems = container_proof.proof({"node": {}, "inside": None, "error": error}, spec())
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize(
    ("node", "source", "words"),
    [
        ({}, "", []),
        ({"devices": {"/dev/infiniband": None}}, "", ["no /dev/infiniband"]),
        ({"paths": {"/data": False}}, "", ["no /data, which modelscope_container_volumes mounts"]),
        ({"free": 10 << 30, "docker_root": "/var/lib/docker"}, "60g", ["/var/lib/docker has 10.0 GiB free", ""][:1]),
        ({"free": 70 << 30}, "60g", []),
        ({"free": None}, "60g", []),
        ({"free": 70 << 30, "sizes": {}}, "/data/swift.tar", ["there is no file /data/swift.tar"]),
        ({"free": 1 << 30, "sizes": {"/data/swift.tar": 1 << 30}}, "/data/swift.tar", ["about 1.5 GiB"]),
        ({"free": 2 << 30, "sizes": {"/data/swift.tar": 1 << 30}}, "/data/swift.tar", []),
        ({"free": 0}, "nonsense", []),
    ],
)
def test_before(node: dict[str, Any], source: str, words: list[str]) -> None:
    problems = container_proof.before({**GOOD["node"], **node}, spec(), "/jobs", source)
    assert len(problems) == len(words), problems
    for problem, word in zip(problems, words):
        assert word in problem
