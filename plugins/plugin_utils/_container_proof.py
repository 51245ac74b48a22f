# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a container give its processes what was asked for? Compares a report from inside with the spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._container_spec import (
    UNLIMITED,
    parse_device,
    parse_size,
    parse_ulimit,
    parse_volume,
)

# Bits of CapEff, from linux/capability.h; the ones a user may ask for by name.
# fmt: off
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
# fmt: on
GIB = 1 << 30
# Layers in an archive are often compressed, and are unpacked beside it.
UNPACKED = 1.5
RECREATE = "Run the role again with modelscope_container_recreate: true"

Report = Mapping[str, Any]
Spec = Mapping[str, Any]


def capabilities(mask: str) -> set[str]:
    """The names of the bits set in a hexadecimal mask."""
    bits = int(mask, 16)
    return {name for number, name in enumerate(CAPABILITIES) if bits >> number & 1}


def _size(number: int) -> str:
    return f"{number / GIB:.1f} GiB"


def _limit(number: int | None) -> str:
    return "unlimited" if number == UNLIMITED else str(number)


def _shm(inside: Report, spec: Spec) -> Iterator[str]:
    asked, got = spec["shm_size"], inside.get("shm_size")
    if asked and got is None:
        yield "there is no /dev/shm in the container. Data loaders and NCCL need it."
    # The kernel rounds up to whole pages.
    elif asked and got is not None and got < asked:
        yield (
            f"/dev/shm is {_size(got)}, not the {_size(asked)} of modelscope_container_shm_size: an existing container "
            f"ignores a changed size. {RECREATE}."
        )


def _limits(inside: Report, spec: Spec) -> Iterator[str]:
    for text in spec["ulimits"]:
        parsed = parse_ulimit(text)
        got = (inside.get("limits") or {}).get(parsed[0]) if parsed else None
        if not parsed or got is None:
            continue
        name, soft, hard = parsed
        if list(got) != [soft, hard]:
            yield (
                f"a process in the container gets {name} {_limit(got[0])} (hard {_limit(got[1])}), not {_limit(soft)} "
                f"(hard {_limit(hard)}). {RECREATE}; if it stays, the node cannot grant the limit."
            )


def _capabilities(inside: Report, spec: Spec) -> Iterator[str]:
    got = capabilities(inside.get("cap_eff") or "0")
    wanted = set(spec["capabilities"]) & set(CAPABILITIES)
    if spec["privileged"]:
        wanted |= {"SYS_ADMIN", "IPC_LOCK"}
    missing = sorted(wanted - got)
    if missing:
        yield f"a process in the container lacks the capabilities {', '.join(missing)}. {RECREATE}."
    allowed = spec["privileged"] or {"SYS_ADMIN", "ALL"} & set(spec["capabilities"])
    if "SYS_ADMIN" in got and not allowed:
        yield f"the container is privileged, though modelscope_container_privileged is false. {RECREATE}."


def _device_missing(device: Mapping[str, str], on_node: Any, inside: Mapping[str, Any]) -> Iterator[str]:
    target = device["target"]
    wanted = [f"{target}/{name}" for name in on_node] if on_node else [target]
    missing = [path for path in wanted if path not in inside]
    if missing:
        yield (
            f"{', '.join(missing)} is on the node but not in the container: it came after the container was made, or "
            f"was not passed to it. {RECREATE}."
        )
    refused = [path for path in wanted if inside.get(path) == "EPERM"]
    if refused:
        yield (
            f"{', '.join(refused)} is visible in the container but may not be opened: it was bind-mounted, and the "
            "device cgroup refuses it. Name it in modelscope_container_devices, not in modelscope_container_volumes."
        )


def _devices(inside: Report, spec: Spec, node: Report) -> Iterator[str]:
    on_node = node.get("devices") or {}
    for text in spec["devices"]:
        device = parse_device(text)
        if not device:
            continue
        if on_node.get(device["source"]) is None:
            yield device_absent(device["source"], spec)
        else:
            yield from _device_missing(device, on_node[device["source"]], inside.get("devices") or {})


def _mounts(inside: Report, spec: Spec) -> Iterator[str]:
    got = inside.get("mounts") or {}
    for text in spec["volumes"]:
        volume = parse_volume(text)
        if volume and volume["target"] not in got:
            yield f"{volume['target']} is not mounted in the container (asked: {text}). {RECREATE}."


def _outputs(inside: Report) -> Iterator[str]:
    for path, answer in (inside.get("outputs") or {}).items():
        if answer.get("error"):
            network = str(answer.get("filesystem") or "").startswith("nfs")
            why = (
                "the server squashes root, which the container's user is (root_squash): let its anonymous user write "
                "there, or export with no_root_squash"
                if network
                else "check owner, mode and mount options on the node, and that the path is mounted into the container"
            )
            yield (
                f"user {inside.get('user')} of the container cannot write to {path} (tried {answer.get('tried')}, "
                f"{answer.get('filesystem') or 'unknown file system'}): {answer['error']}. Likely cause: {why}."
            )


def _gpus_wanted(asked: Any, node: Report) -> int | None:
    if asked == "all":
        return int(node.get("gpus") or 0)
    if isinstance(asked, int):
        return asked
    return len(asked) if asked else None


def _gpus(inside: Report, spec: Spec, node: Report) -> Iterator[str]:
    wanted = _gpus_wanted(spec["gpus"], node)
    if wanted is None:
        return
    got, error = inside.get("gpus"), inside.get("gpu_error")
    if error:
        yield f"nvidia-smi fails in the container: {error}. After a driver upgrade: {RECREATE.lower()}."
    elif wanted == 0:
        yield (
            "all GPUs were asked for, but the node has none that its driver knows. Check nvidia-smi on the node, or "
            "set modelscope_container_gpus: none."
        )
    # A privileged container sees every GPU, whatever was asked for.
    elif (got or 0) < wanted or (got != wanted and not spec["privileged"]):
        yield f"the container sees {got or 0} GPUs, not the {wanted} that were asked for. {RECREATE}."


def device_absent(path: str, spec: Spec) -> str:
    """The message for a device that the node does not have."""
    hidden = " Docker would not even say so, since the container is privileged." if spec["privileged"] else ""
    return (
        f"the node has no {path}, which modelscope_container_devices asks for.{hidden} Load its driver (for InfiniBand "
        "mlx5_ib and ib_uverbs), or set modelscope_container_devices: [] if the node has no such hardware."
    )


def _space(node: Report, source: str) -> Iterator[str]:
    """source: an archive on the node, whose size says what is needed, or the size itself."""
    if source.startswith("/"):
        archive = (node.get("sizes") or {}).get(source)
        if archive is None:
            yield (
                f"there is no file {source}, which modelscope_container_archive names. Copy the archive to the node, "
                "or mount the storage that holds it."
            )
        need = int((archive or 0) * UNPACKED)
    else:
        need = parse_size(source) or 0
    free = node.get("free")
    if free is not None and free < need:
        yield (
            f"Docker's data folder {node.get('docker_root')} has {_size(free)} free, and the image needs about "
            f"{_size(need)}. Free space there, or move it with data-root in docker_engine_daemon_config."
        )


def before(node: Report, spec: Spec, jobs_dir: str, source: str = "") -> list[str]:
    """What would make the container fail, or silently be less than asked, seen from the node before it is made."""
    problems = [*_space(node, source)] if source else []
    problems += [
        device_absent(device["source"], spec)
        for device in map(parse_device, spec["devices"])
        if device and (node.get("devices") or {}).get(device["source"]) is None
    ]
    for volume in map(parse_volume, spec["volumes"]):
        if volume and volume["source"] != jobs_dir and not (node.get("paths") or {}).get(volume["source"]):
            problems.append(
                f"the node has no {volume['source']}, which modelscope_container_volumes mounts: Docker would make an "
                "empty folder there. Mount the shared storage, or create the folder."
            )
    return problems


def _unreadable(error: str) -> str:
    if re.search(r"executable file not found|no such file|not found", error):
        return (
            "nothing in the container can be checked, since its image has no python3. Is "
            f"modelscope_container_image a training image? ({error})"
        )
    return f"the check inside the container did not run: {error}. Look at docker logs and docker inspect on the node."


def proof(report: Report, spec: Spec) -> list[str]:
    """Every way in which the container is not what was asked for."""
    inside, node = report.get("inside"), report.get("node") or {}
    if not inside:
        return [_unreadable(str(report.get("error") or "no answer"))]
    checks: Sequence[Callable[[], Iterator[str]]] = (
        lambda: _shm(inside, spec),
        lambda: _limits(inside, spec),
        lambda: _capabilities(inside, spec),
        lambda: _devices(inside, spec, node),
        lambda: _mounts(inside, spec),
        lambda: _outputs(inside),
        lambda: _gpus(inside, spec, node),
    )
    return [problem for check in checks for problem in check()]
