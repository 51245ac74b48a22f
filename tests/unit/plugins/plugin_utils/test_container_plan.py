# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_plan as container_plan
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_spec as container_spec

OPTIONS: dict[str, Any] = {
    "name": "trainyard",
    "image": "swift:4.4.3",
    "privileged": True,
    "shm_size": "512g",
    "volumes": ["/data:/data"],
    "jobs_dir": "/jobs",
}
WANTED = container_spec.build(OPTIONS)


def made(status: str = "running", policy: str = "no", image: str = "sha256:1", **changed: Any) -> dict[str, Any]:
    """What docker inspect would say of a container that this role made."""
    labels = container_spec.build({**OPTIONS, **changed})["labels"]
    return {
        "Config": {"Labels": labels},
        "HostConfig": {"RestartPolicy": {"Name": policy}},
        "Image": image,
        "State": {"Status": status},
    }


def plan(container: dict[str, Any] | None, **extra: Any) -> dict[str, Any]:
    return container_plan.plan(container, WANTED, "trainyard", "sha256:1", **extra)


@pytest.mark.parametrize(
    ("container", "action", "summary"),
    [
        (None, "create", "as asked"),
        ({}, "create", "as asked"),
        (made(), "none", "as asked"),
        (made("restarting"), "none", "as asked"),
        (made("exited"), "start", "as asked"),
        (made("created"), "start", "as asked"),
        (made("dead"), "recreate", "status: dead -> running"),
        (made(privileged=False), "recreate", "privileged: false -> true"),
        (made("exited", shm_size="64g"), "recreate", "shm_size: 68719476736 -> 549755813888"),
        (made(policy="always"), "recreate", "restart_policy: always -> no"),
        (made(policy=""), "none", "as asked"),
        (made(image="sha256:2"), "recreate", "image id: sha256:2 -> sha256:1"),
    ],
)
def test_actions(container: dict[str, Any] | None, action: str, summary: str) -> None:
    decided = plan(container)
    assert (decided["action"], decided["summary"], decided["problems"]) == (action, summary, [])


def test_recreate_on_demand() -> None:
    assert plan(made(), recreate=True)["action"] == "recreate"
    assert plan(None, recreate=True)["action"] == "create"


def test_without_an_image_id_it_is_not_compared() -> None:
    assert container_plan.plan(made(), WANTED, "trainyard")["action"] == "none"


@pytest.mark.parametrize("label", ["", "{", "[]"])
def test_a_label_that_cannot_be_read(label: str) -> None:
    container = made()
    container["Config"]["Labels"] = {container_spec.LABEL_SPEC: label, container_spec.LABEL_DIGEST: "sha256:old"}
    decided = plan(container)
    assert decided["action"] == "recreate"
    assert {item["option"] for item in decided["differences"]} >= {"image", "privileged"}


def test_equal_specs_with_another_digest() -> None:
    container = made()
    container["Config"]["Labels"][container_spec.LABEL_DIGEST] = "sha256:old"
    assert plan(container)["differences"][0]["option"] == "spec"


@pytest.mark.parametrize("labels", [None, {}, {"other": "label"}])
def test_a_foreign_container_is_refused(labels: dict[str, str] | None) -> None:
    decided = plan({"Config": {"Labels": labels}, "State": {"Status": "running"}})
    assert decided["action"] == "none"
    assert "this role did not make it" in decided["problems"][0]
    assert container_plan.foreign({"Config": {"Labels": labels}}, "trainyard") == decided["problems"]


@pytest.mark.parametrize("container", [None, {}, made()])
def test_nobody_or_ours_is_not_foreign(container: dict[str, Any] | None) -> None:
    assert container_plan.foreign(container, "trainyard") == []


def test_a_paused_container_is_refused() -> None:
    assert "docker unpause trainyard" in plan(made("paused"))["problems"][0]


def image(number: int, layers: list[str] | None = None, created: str | None = "2026-07-01T00:00:00Z") -> dict[str, Any]:
    return container_plan.identity(
        {"Id": f"sha256:{number}", "RootFS": {"Layers": layers}, "Created": created, "Config": {"Env": ["A=b"]}}
    )


def test_identity_is_small() -> None:
    assert image(1, ["a"]) == {"Id": "sha256:1", "Created": "2026-07-01T00:00:00Z", "RootFS": {"Layers": ["a"]}}
    assert container_plan.identity({})["RootFS"] == {"Layers": []}


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ({"a": image(1, ["x"]), "b": image(1, ["x"])}, []),
        # The containerd image store has other ids for the same content.
        ({"a": image(1, ["x", "y"]), "b": image(2, ["x", "y"])}, []),
        ({"a": image(1), "b": image(1)}, []),
        ({"a": image(1, ["x"]), "b": {}}, ["image swift:1 is missing on b."]),
        ({"a": image(1, ["x"]), "b": image(2, ["z"]), "c": image(1, ["x"])}, ["not the same on all nodes (a, c: id"]),
        ({"a": image(1, created=None), "b": image(2)}, ["made at an unknown time"]),
        ({"a": None, "b": image(1), "c": image(2)}, ["missing on a", "not the same"]),
    ],
)
def test_images(images: dict[str, Any], words: list[str]) -> None:
    problems = container_plan.image_problems(images, "swift:1")
    assert len(problems) == len(words)
    for problem, word in zip(problems, words):
        assert word in problem
