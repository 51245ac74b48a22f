# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_spec as container_spec
from hypothesis import given
from hypothesis import strategies as st

DIGEST = "@sha256:" + "a" * 64
GOOD: dict[str, Any] = {
    "name": "trainyard",
    "image": "registry.example/swift:4.4.3",
    "entrypoint": ["sleep", "infinity"],
    "privileged": True,
    "gpus": "all",
    "network_mode": "host",
    "ipc_mode": "",
    "shm_size": "512g",
    "userns_mode": "host",
    "devices": ["/dev/infiniband"],
    "capabilities": [],
    "security_opts": [],
    "volumes": ["/data:/data"],
    "ulimits": ["memlock:-1:-1", "nofile:1048576:1048576"],
    "init": True,
    "restart_policy": "no",
    "log_driver": "json-file",
    "log_options": {"max-size": "100m", "max-file": 3},
    "environment": {"TZ": "UTC"},
    "jobs_dir": "/var/lib/trainyard/jobs",
    "output_paths": ["/data/train_output"],
    "nodes": 2,
}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512g", 512 << 30),
        ("64M", 64 << 20),
        ("1 GiB", 1 << 30),
        ("2tb", 2 << 40),
        (4096, 4096),
        ("1k", 1024),
        ("", None),
        ("much", None),
        ("1.5g", None),
    ],
)
def test_sizes(text: Any, size: int | None) -> None:
    assert container_spec.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("memlock:-1:-1", ("memlock", -1, -1)),
        ("memlock:unlimited", ("memlock", -1, -1)),
        ("nofile=1024:2048", ("nofile", 1024, 2048)),
        ("stack:67108864", ("stack", 67108864, 67108864)),
        ("nofile", None),
        ("nofile:much", None),
        (":1:2", None),
        ("nofile:1:2:3", None),
    ],
)
def test_ulimits(text: str, limit: tuple[str, int, int] | None) -> None:
    assert container_spec.parse_ulimit(text) == limit


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/dev/infiniband", ("/dev/infiniband", "/dev/infiniband", "rwm")),
        ("/dev/a:/dev/b", ("/dev/a", "/dev/b", "rwm")),
        ("/dev/a:/dev/b:r", ("/dev/a", "/dev/b", "r")),
        ("infiniband", None),
        ("/dev/a:b", None),
        ("/dev/a:/dev/b:x", None),
        ("/dev/a:/dev/b:", None),
        ("/dev/a:/dev/b:r:w", None),
    ],
)
def test_devices(text: str, parts: tuple[str, str, str] | None) -> None:
    found = container_spec.parse_device(text)
    assert (tuple(found.values()) if found else None) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/data:/data", ("/data", "/data", "rw")),
        ("/data/:/data/:ro", ("/data", "/data", "ro")),
        ("/:/host", ("/", "/host", "rw")),
        ("data:/data", None),
        ("/data", None),
        ("/data:data", None),
    ],
)
def test_volumes(text: str, parts: tuple[str, str, str] | None) -> None:
    found = container_spec.parse_volume(text)
    assert (tuple(found.values()) if found else None) == parts


@pytest.mark.parametrize(
    ("gpus", "request_"),
    [
        ("all", [{"driver": "nvidia", "capabilities": [["gpu"]], "count": -1}]),
        (2, [{"driver": "nvidia", "capabilities": [["gpu"]], "count": 2}]),
        ("4", [{"driver": "nvidia", "capabilities": [["gpu"]], "count": 4}]),
        ([0, 1], [{"driver": "nvidia", "capabilities": [["gpu"]], "device_ids": ["0", "1"]}]),
        ("none", []),
        ([], []),
        (0, []),
        (None, []),
    ],
)
def test_gpu_requests(gpus: Any, request_: list[dict[str, Any]]) -> None:
    assert container_spec.device_requests(gpus) == request_


def test_seed_options_have_no_problem_and_carry_labels() -> None:
    built = container_spec.build(GOOD)
    assert built["problems"] == []
    assert json.loads(built["labels"][container_spec.LABEL_SPEC]) == built["spec"]
    assert built["labels"][container_spec.LABEL_DIGEST] == built["digest"] == container_spec.digest(built["spec"])
    assert built["spec"]["volumes"] == ["/data:/data:rw", "/var/lib/trainyard/jobs:/var/lib/trainyard/jobs:rw"]
    assert built["spec"]["log_options"] == {"max-file": "3", "max-size": "100m"}


@pytest.mark.parametrize(
    "same",
    [
        {"shm_size": "524288m"},
        {"volumes": ["/data/:/data"]},
        {"ulimits": ["nofile:1048576", "memlock:unlimited"]},
        {"devices": ["/dev/infiniband:/dev/infiniband:rwm"]},
        {"log_options": {"max-file": "3", "max-size": "100m"}},
        {"gpus": "all ".strip()},
        {"output_paths": []},
        {"nodes": 64},
    ],
)
def test_another_spelling_is_the_same_container(same: dict[str, Any]) -> None:
    assert container_spec.build({**GOOD, **same})["digest"] == container_spec.build(GOOD)["digest"]


@pytest.mark.parametrize(
    "other",
    [
        {"shm_size": "64g"},
        {"privileged": False},
        {"gpus": [0]},
        {"ipc_mode": "host"},
        {"capabilities": ["CAP_IPC_LOCK"]},
        {"volumes": []},
        {"environment": {}},
        {"init": False},
        {"security_opts": ["label=disable"]},
    ],
)
def test_another_option_is_another_container(other: dict[str, Any]) -> None:
    assert container_spec.build({**GOOD, **other})["digest"] != container_spec.build(GOOD)["digest"]


def test_host_ipc_has_no_size() -> None:
    assert container_spec.build({**GOOD, "ipc_mode": "host", "shm_size": ""})["spec"]["shm_size"] is None
    assert container_spec.build({**GOOD, "ipc_mode": "host", "shm_size": ""})["problems"] == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"name": "a b"}, "name: 'a b' is no container name"),
        ({"image": ""}, "image: '' is no image name"),
        ({"image": "swift"}, "neither tag nor digest"),
        ({"image": "host:5000/swift"}, "neither tag nor digest"),
        ({"image": "swift@sha256:abc"}, "no complete digest"),
        ({"shm_size": "big"}, "shm_size: 'big' is no size"),
        ({"gpus": "some"}, "gpus: 'some' is not understood"),
        ({"gpus": [0, "0"]}, "names a GPU twice"),
        ({"network_mode": "bridge"}, "hides the cluster network"),
        ({"devices": ["infiniband"]}, "is no device"),
        ({"devices": ["/dev/infiniband:/dev/inifiniband"]}, "Both sides must be /dev/infiniband"),
        ({"volumes": ["data:/data"]}, "is no bind mount"),
        ({"volumes": ["/dev/infiniband:/dev/inifiniband"]}, "privileged hides the slip"),
        ({"volumes": ["/dev/infiniband:/dev/infiniband"], "privileged": False}, "device cgroup refuses each"),
        ({"ulimits": ["memlock"]}, "is no limit"),
        ({"ulimits": ["nofile:-1"]}, "nofile must be finite"),
        ({"jobs_dir": "jobs"}, "jobs_dir: 'jobs' must be an absolute path"),
        ({"jobs_dir": "/"}, "must be an absolute path"),
        ({"output_paths": ["out"]}, "output_paths: 'out' must be an absolute path"),
    ],
)
def test_problems(bad: dict[str, Any], words: str) -> None:
    problems = container_spec.build({**GOOD, **bad})["problems"]
    assert len(problems) == 1
    assert words in problems[0]


def test_all_problems_at_once() -> None:
    bad = {**GOOD, "name": "-", "shm_size": "x", "jobs_dir": ""}
    assert len(container_spec.build(bad, {"registry": "r"})["problems"]) == 4


def test_login_is_complete_or_absent() -> None:
    complete = {"registry": "r", "username": "u", "password": "p"}
    assert container_spec.build(GOOD, complete)["problems"] == []
    problem = container_spec.build(GOOD, {"registry": "r", "username": "u"})["problems"][0]
    assert "password missing" in problem


@pytest.mark.parametrize(
    "fine",
    [
        {"image": "swift" + DIGEST},
        {"network_mode": "bridge", "nodes": 1},
        {"volumes": ["/dev/infiniband:/dev/infiniband"]},
        {"volumes": ["/dev/shm:/dev/shm", "/dev/hugepages/1g:/huge"], "privileged": False},
        {"gpus": 8},
    ],
)
def test_no_problem(fine: dict[str, Any]) -> None:
    assert container_spec.build({**GOOD, **fine})["problems"] == []


@given(
    st.permutations(["/a:/a", "/b:/b:ro", "/c/:/d"]), st.permutations(["IPC_LOCK", "cap_sys_ptrace", "CAP_SYS_NICE"])
)
def test_order_means_nothing(volumes: list[str], capabilities: list[str]) -> None:
    one = container_spec.build({**GOOD, "volumes": volumes, "capabilities": capabilities})
    two = container_spec.build({**GOOD, "volumes": sorted(volumes), "capabilities": sorted(capabilities)})
    assert one["digest"] == two["digest"]
