# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do with the container that a node has, given the one that is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._container_spec import LABEL_DIGEST, LABEL_SPEC

RUNNING = {"running", "restarting"}
STARTABLE = {"exited", "created"}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every option that is not the same in both, by name."""
    return [
        {"option": key, "before": before.get(key), "after": after.get(key)}
        for key in sorted(set(before) | set(after))
        if before.get(key) != after.get(key)
    ]


def _old_spec(labels: Mapping[str, str]) -> dict[str, Any]:
    try:
        spec = json.loads(labels.get(LABEL_SPEC, ""))
    except ValueError:
        return {}
    return spec if isinstance(spec, dict) else {}


def _drift(container: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What `docker update` can change behind the label's back, and the options of a label that cannot be read."""
    labels = (container.get("Config") or {}).get("Labels") or {}
    old = _old_spec(labels)
    if labels.get(LABEL_DIGEST) != wanted["digest"]:
        return differences(old, wanted["spec"]) or [
            {"option": "spec", "before": labels.get(LABEL_DIGEST), "after": wanted["digest"]}
        ]
    actual = ((container.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name") or "no"
    return differences({"restart_policy": actual}, {"restart_policy": wanted["spec"]["restart_policy"]})


def _image(container: Mapping[str, Any], image_id: str | None) -> list[dict[str, Any]]:
    if not image_id or container.get("Image") == image_id:
        return []
    return [{"option": "image id", "before": container.get("Image"), "after": image_id}]


def _foreign(name: str) -> str:
    return (
        f"container {name!r} exists, but this role did not make it, so nobody knows with which options. "
        f"Remove it (docker rm -f {name}), or choose another modelscope_container_name."
    )


def foreign(container: Mapping[str, Any] | None, name: str) -> list[str]:
    """One problem when a container of that name exists that this role did not make."""
    labels = ((container or {}).get("Config") or {}).get("Labels") or {}
    return [_foreign(name)] if container and LABEL_DIGEST not in labels else []


def _paused(name: str) -> str:
    return (
        f"container {name!r} is paused: what runs in it stands still. Resume it (docker unpause {name}) or remove it."
    )


def plan(
    container: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    name: str,
    image_id: str | None = None,
    recreate: bool = False,
) -> dict[str, Any]:
    """action: none, start, create or recreate; the differences behind it; and what forbids any of them."""
    result = _decide(container, wanted, name, image_id)
    reason = summary(result["differences"])
    if recreate and result["action"] in ("none", "start") and not result["problems"]:
        return {**result, "action": "recreate", "summary": "modelscope_container_recreate asks for it"}
    return {**result, "summary": reason or "as asked"}


def summary(found: list[dict[str, Any]]) -> str:
    """The differences in one line."""
    return "; ".join(f"{item['option']}: {_word(item['before'])} -> {_word(item['after'])}" for item in found)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _decide(
    container: Mapping[str, Any] | None, wanted: Mapping[str, Any], name: str, image_id: str | None
) -> dict[str, Any]:
    result: dict[str, Any] = {"action": "none", "differences": [], "problems": []}
    if not container:
        return {**result, "action": "create"}
    if foreign(container, name):
        return {**result, "problems": foreign(container, name)}
    status = (container.get("State") or {}).get("Status", "")
    found = _drift(container, wanted) + _image(container, image_id)
    if found:
        return {**result, "action": "recreate", "differences": found}
    if status == "paused":
        return {**result, "problems": [_paused(name)]}
    if status in RUNNING:
        return result
    if status in STARTABLE:
        return {**result, "action": "start"}
    return {**result, "action": "recreate", "differences": [{"option": "status", "before": status, "after": "running"}]}


def identity(image: Mapping[str, Any]) -> dict[str, Any]:
    """What is needed of an image to compare it with others."""
    return {
        "Id": image.get("Id"),
        "Created": image.get("Created"),
        "RootFS": {"Layers": (image.get("RootFS") or {}).get("Layers") or []},
    }


def _identity(image: Mapping[str, Any]) -> tuple[str, ...]:
    """Layers name the same content in every storage back end, ids only within one."""
    layers = (image.get("RootFS") or {}).get("Layers") or []
    return tuple(layers) or (str(image.get("Id")),)


def _describe(image: Mapping[str, Any], nodes: list[str]) -> str:
    return f"{', '.join(nodes)}: id {str(image.get('Id'))[:19]}, made {image.get('Created') or 'at an unknown time'}"


def image_problems(images: Mapping[str, Mapping[str, Any] | None], name: str) -> list[str]:
    """One problem when nodes lack the image, one when they hold different ones under the same name."""
    problems = []
    missing = [node for node, image in images.items() if not image]
    if missing:
        problems.append(
            f"image {name} is missing on {', '.join(missing)}. Let this role pull it from a registry the node can "
            "reach, or set modelscope_container_archive to an archive of it on the node."
        )
    variants: dict[tuple[str, ...], list[str]] = {}
    by_id: dict[str, tuple[str, ...]] = {}
    for node, image in images.items():
        if image:
            key = by_id.setdefault(str(image.get("Id")), _identity(image))
            variants.setdefault(key, []).append(node)
    if len(variants) > 1:
        lines = [_describe(images[nodes[0]] or {}, nodes) for nodes in variants.values()]
        problems.append(
            f"image {name} is not the same on all nodes ({'; '.join(lines)}): its tag was moved, or the archives "
            "differ. Name it by digest, or remove the odd one (docker rmi) and run this again."
        )
    return problems
