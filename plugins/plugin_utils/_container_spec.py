# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a training container is asked to be: one normal form of the role's options, and its digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LABEL_SPEC = "io.trainyard.swift.spec"
LABEL_DIGEST = "io.trainyard.swift.digest"

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
SIZE = re.compile(r"(\d+)\s*([bkmgt]?)i?b?", re.IGNORECASE)
FACTORS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
UNLIMITED = -1

# Folders under /dev that are memory or messages rather than devices: binding them is fine.
PLAIN_DEV = ("/dev/shm", "/dev/hugepages", "/dev/mqueue", "/dev/log")


def parse_size(value: Any) -> int | None:
    """Bytes of 512g, 64M, 1024 (Docker counts in powers of two); None when it is no size."""
    found = SIZE.fullmatch(str(value).strip())
    return int(found.group(1)) * FACTORS[found.group(2).lower()] if found else None


def _limit(text: str) -> int:
    return UNLIMITED if text.strip().lower() in {"-1", "unlimited", "infinity"} else int(text)


def parse_ulimit(text: str) -> tuple[str, int, int] | None:
    """Name, soft and hard limit of memlock:-1 or nofile:1024:2048; None when it is neither."""
    name, *limits = str(text).replace("=", ":", 1).split(":")
    try:
        values = [_limit(limit) for limit in limits]
    except ValueError:
        return None
    if not name or len(values) not in (1, 2):
        return None
    return name.lower(), values[0], values[-1]


def parse_device(text: str) -> dict[str, str] | None:
    """Host path, container path and permissions of a device; None when a path is not absolute."""
    parts = str(text).split(":")
    if len(parts) > 3 or not parts[0].startswith("/"):
        return None
    target = parts[1] if len(parts) > 1 else parts[0]
    permissions = parts[2] if len(parts) > 2 else "rwm"
    if not target.startswith("/") or not permissions or set(permissions) - set("rwm"):
        return None
    return {"source": parts[0], "target": target, "permissions": permissions}


def parse_volume(text: str) -> dict[str, str] | None:
    """Host path, container path and mode of a bind mount; None when it is not a path on the host."""
    parts = str(text).split(":")
    if len(parts) not in (2, 3) or not all(part.startswith("/") for part in parts[:2]):
        return None
    return {"source": _tidy(parts[0]), "target": _tidy(parts[1]), "mode": parts[2] if len(parts) > 2 else "rw"}


def _tidy(path: str) -> str:
    return path.rstrip("/") or "/"


def gpus_asked(value: Any) -> str | int | list[str] | None:
    """all, a count, a list of ids, or None for no GPU."""
    if value is None or value in ("", "none", [], 0, "0", False):
        return None
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    text = str(value).strip()
    return int(text) if text.isdigit() else text


def device_requests(gpus: Any) -> list[dict[str, Any]]:
    """The GPU request in the words of Docker's API."""
    asked = gpus_asked(gpus)
    if asked is None:
        return []
    request: dict[str, Any] = {"driver": "nvidia", "capabilities": [["gpu"]]}
    if isinstance(asked, list):
        request["device_ids"] = asked
    else:
        request["count"] = -1 if asked == "all" else asked
    return [request]


def capability(name: Any) -> str:
    """IPC_LOCK, however it was written."""
    text = str(name).strip().upper()
    return text[4:] if text.startswith("CAP_") else text


def _volumes(options: Mapping[str, Any]) -> list[str]:
    asked = [*(options.get("volumes") or []), "{0}:{0}".format(options["jobs_dir"])]
    parsed = [parse_volume(volume) for volume in asked]
    return sorted({"{source}:{target}:{mode}".format(**volume) for volume in parsed if volume})


def _devices(options: Mapping[str, Any]) -> list[str]:
    parsed = [parse_device(device) for device in options.get("devices") or []]
    return sorted({"{source}:{target}:{permissions}".format(**device) for device in parsed if device})


def _ulimits(options: Mapping[str, Any]) -> list[str]:
    parsed = [parse_ulimit(limit) for limit in options.get("ulimits") or []]
    return sorted({f"{limit[0]}:{limit[1]}:{limit[2]}" for limit in parsed if limit})


def _words(value: Any) -> dict[str, str]:
    return {str(key): str(item) for key, item in sorted((value or {}).items())}


def normal_form(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with one spelling for one meaning, so that only real differences count."""
    ipc_mode = str(options.get("ipc_mode") or "")
    return {
        "image": str(options["image"]),
        "entrypoint": [str(word) for word in options.get("entrypoint") or []],
        "privileged": options.get("privileged") is True,
        "gpus": gpus_asked(options.get("gpus")),
        "network_mode": str(options.get("network_mode") or "host"),
        "ipc_mode": ipc_mode,
        # With the host's IPC namespace /dev/shm is the host's, and Docker ignores the size.
        "shm_size": None if ipc_mode == "host" else parse_size(options.get("shm_size", "")),
        "userns_mode": str(options.get("userns_mode") or ""),
        "devices": _devices(options),
        "capabilities": sorted({capability(name) for name in options.get("capabilities") or []}),
        "volumes": _volumes(options),
        "ulimits": _ulimits(options),
        "init": options.get("init") is True,
        "restart_policy": str(options.get("restart_policy") or "no"),
        "log_driver": str(options.get("log_driver") or "json-file"),
        "log_options": _words(options.get("log_options")),
        "security_opts": sorted(str(item) for item in options.get("security_opts") or []),
        "environment": _words(options.get("environment")),
    }


def digest(spec: Mapping[str, Any]) -> str:
    """A short, stable name for a spec."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _name_problems(options: Mapping[str, Any]) -> list[str]:
    name = str(options.get("name", ""))
    if NAME.fullmatch(name):
        return []
    return [
        f"name: {name!r} is no container name. Use letters, digits, '_', '.' and '-', "
        "at least two characters, the first a letter or digit."
    ]


def _image_problems(options: Mapping[str, Any]) -> list[str]:
    image = str(options.get("image") or "")
    last = image.rsplit("/", 1)[-1]
    if not image or re.search(r"\s", image):
        return [f"image: {image!r} is no image name. Give repository:tag or repository@sha256:digest."]
    if "@" in image and not re.search(r"@sha256:[0-9a-f]{64}$", image):
        return [f"image: {image!r} has no complete digest. It must end with @sha256: and 64 hexadecimal digits."]
    if "@" not in last and ":" not in last:
        return [f"image: {image!r} has neither tag nor digest, and 'latest' differs from day to day. Add one."]
    return []


def _shm_problems(options: Mapping[str, Any]) -> list[str]:
    if options.get("ipc_mode") == "host" or parse_size(options.get("shm_size", "")):
        return []
    return [f"shm_size: {options.get('shm_size')!r} is no size. Write it like 512g."]


def _gpu_problems(options: Mapping[str, Any]) -> list[str]:
    asked = gpus_asked(options.get("gpus"))
    if isinstance(asked, str) and asked != "all":
        return [f"gpus: {asked!r} is not understood. Give all, none, a count, or a list of indices or UUIDs."]
    if isinstance(asked, list) and len(set(asked)) != len(asked):
        return [f"gpus: {asked} names a GPU twice."]
    return []


def _network_problems(options: Mapping[str, Any]) -> list[str]:
    mode = options.get("network_mode") or "host"
    if mode == "host" or int(options.get("nodes") or 1) == 1:
        return []
    return [
        f"network_mode: {mode!r} hides the cluster network from training on several nodes "
        "(communicators come up, then the first collective hangs). Use host."
    ]


def _device_problems(options: Mapping[str, Any]) -> list[str]:
    problems = []
    for text in options.get("devices") or []:
        device = parse_device(text)
        if device is None:
            problems.append(f"devices: {text!r} is no device. Write /dev/name or /dev/name:/dev/name:rwm.")
        elif device["source"] == "/dev/infiniband" and device["target"] != device["source"]:
            problems.append(
                f"devices: {text!r} puts the RDMA devices where no library looks for them. "
                "Both sides must be /dev/infiniband."
            )
    return problems


def _is_device_folder(path: str) -> bool:
    return path.startswith("/dev/") and not any(path == plain or path.startswith(plain + "/") for plain in PLAIN_DEV)


def _volume_problem(text: str, privileged: bool) -> str | None:
    volume = parse_volume(text)
    if volume is None:
        return f"volumes: {text!r} is no bind mount. Write /on/the/node:/in/the/container, with :ro for read only."
    if not _is_device_folder(volume["source"]) and not _is_device_folder(volume["target"]):
        return None
    if privileged and volume["source"] == volume["target"]:
        return None
    if privileged:
        return (
            f"volumes: {text!r} puts devices where nothing looks for them, and privileged hides the slip. "
            "Both sides must be the same path; better, name the device in devices."
        )
    return (
        f"volumes: {text!r} mounts device files without the right to open them: Docker's device cgroup refuses each. "
        "Name the device in devices instead."
    )


def _volume_problems(options: Mapping[str, Any]) -> list[str]:
    privileged = options.get("privileged") is True
    found = [_volume_problem(str(text), privileged) for text in options.get("volumes") or []]
    return [problem for problem in found if problem]


def _ulimit_problems(options: Mapping[str, Any]) -> list[str]:
    problems = []
    for text in options.get("ulimits") or []:
        limit = parse_ulimit(text)
        if limit is None:
            problems.append(f"ulimits: {text!r} is no limit. Write memlock:-1:-1 or nofile:1048576:1048576.")
        elif limit[0] == "nofile" and UNLIMITED in limit:
            problems.append(
                "ulimits: nofile must be finite: programs that close every possible descriptor "
                "would take minutes to start a child. Use nofile:1048576:1048576."
            )
    return problems


def _jobs_dir_problems(options: Mapping[str, Any]) -> list[str]:
    path = str(options.get("jobs_dir") or "")
    if path.startswith("/") and path != "/" and ":" not in path:
        return []
    return [f"jobs_dir: {path!r} must be an absolute path of a folder on the node's own disk."]


def _output_path_problems(options: Mapping[str, Any]) -> list[str]:
    return [
        f"output_paths: {path!r} must be an absolute path as the container sees it."
        for path in options.get("output_paths") or []
        if not str(path).startswith("/")
    ]


def _login_problems(login: Mapping[str, Any]) -> list[str]:
    missing = [key for key in ("registry", "username", "password") if not login.get(key)]
    if not login or not missing:
        return []
    return [f"registry_login: {', '.join(missing)} missing. Give registry, username and password, or none of them."]


CHECKS: Sequence[Callable[[Mapping[str, Any]], list[str]]] = (
    _name_problems,
    _image_problems,
    _shm_problems,
    _gpu_problems,
    _network_problems,
    _device_problems,
    _volume_problems,
    _ulimit_problems,
    _jobs_dir_problems,
    _output_path_problems,
)


def build(options: Mapping[str, Any], registry_login: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Everything the role needs to know about its options: spec, digest, labels, GPU request and problems."""
    problems = [problem for check in CHECKS for problem in check(options)] + _login_problems(registry_login or {})
    spec = normal_form(options)
    return {
        "spec": spec,
        "digest": digest(spec),
        "labels": {LABEL_SPEC: json.dumps(spec, sort_keys=True), LABEL_DIGEST: digest(spec)},
        "device_requests": device_requests(options.get("gpus")),
        "problems": problems,
    }
