# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's Docker Engine needs, decided from one look at the node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What dockerd takes over on SIGHUP; everything else needs a restart.
RELOADABLE = {
    "allow-nondistributable-artifacts",
    "authorization-plugins",
    "debug",
    "default-runtime",
    "features",
    "insecure-registries",
    "labels",
    "live-restore",
    "max-concurrent-downloads",
    "max-concurrent-uploads",
    "max-download-attempts",
    "registry-mirrors",
    "runtimes",
    "shutdown-timeout",
}
# Flags of dockerd whose key in daemon.json has another name.
FLAG_KEYS = {"host": "hosts", "H": "hosts", "g": "data-root", "graph": "data-root", "s": "storage-driver", "D": "debug"}
PLURALS = {
    "label": "labels",
    "log-opt": "log-opts",
    "storage-opt": "storage-opts",
    "exec-opt": "exec-opts",
    "dns-opt": "dns-opts",
    "registry-mirror": "registry-mirrors",
    "insecure-registry": "insecure-registries",
    "default-ulimit": "default-ulimits",
    "add-runtime": "runtimes",
    "authorization-plugin": "authorization-plugins",
}
# What containers do not outlive, even with live-restore.
NOT_OUTLIVED = {"bip", "bridge", "containerd", "data-root", "exec-root", "fixed-cidr", "storage-driver", "userns-remap"}
PROXIES_IN_DAEMON_CONFIG = 23  # first version that reads "proxies" from daemon.json
VALIDATES = 23  # first version that knows dockerd --validate
LAST_REQUESTS_FOR_OLD_SDK = (2, 32)  # from here on requests refuses the scheme of Docker's SDK before 7.1
FIRST_GOOD_SDK = (7, 1)

Probe = Mapping[str, Any]


def version_of(text: str | None) -> tuple[int, ...]:
    """The leading numbers of a version; empty when there are none."""
    numbers: list[int] = []
    for part in (text or "").replace("+", ".").replace("-", ".").split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def merge(before: Any, wanted: Any) -> Any:
    """Both, where both can be had: mappings key by key (null removes), lists united, else what is wanted."""
    if isinstance(before, Mapping) and isinstance(wanted, Mapping):
        merged = dict(before)
        for key, value in wanted.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(merged.get(key), value)
        return merged
    if isinstance(before, list) and isinstance(wanted, list):
        return before + [item for item in wanted if item not in before]
    if isinstance(wanted, Mapping):
        return {key: merge(None, value) for key, value in wanted.items() if value is not None}
    return wanted


def parse_config(text: str | None, path: str) -> tuple[dict[str, Any], list[str]]:
    """The contents of daemon.json, or why they cannot be used."""
    if not (text or "").strip():
        return {}, []
    try:
        config = json.loads(text or "")
    except ValueError as error:
        return {}, [
            f"{path} is not valid JSON ({error}), so nothing may be merged into it and Docker will not start with it "
            "again. Correct it by hand; nothing was changed."
        ]
    if not isinstance(config, dict):
        return {}, [f"{path} holds a {type(config).__name__}, not a mapping. Correct it by hand; nothing was changed."]
    return config, []


def flags(command_line: Sequence[str]) -> dict[str, str]:
    """The options that dockerd was started with, by their key in daemon.json."""
    found: dict[str, str] = {}
    for word in command_line[1:]:
        if word.startswith("-"):
            name = word.lstrip("-").split("=", 1)[0]
            found[FLAG_KEYS.get(name) or PLURALS.get(name) or name] = word
    return found


def _config_path(command_line: Sequence[str]) -> str | None:
    for position, word in enumerate(command_line):
        if word.startswith("--config-file="):
            return word.split("=", 1)[1]
        if word == "--config-file" and position + 1 < len(command_line):
            return command_line[position + 1]
    return None


def _answers(probe: Probe) -> bool:
    return bool((probe.get("info") or {}).get("ServerVersion"))


def _present(probe: Probe) -> bool:
    binaries = probe.get("binaries") or {}
    return _answers(probe) or bool(binaries.get("dockerd"))


def _major(probe: Probe) -> int:
    return (version_of((probe.get("info") or {}).get("ServerVersion")) or (0,))[0]


def _ours(probe: Probe) -> bool:
    return bool(probe.get("installed"))


def _snap(probe: Probe) -> Iterator[str]:
    binaries = probe.get("binaries") or {}
    root = str((probe.get("info") or {}).get("DockerRootDir") or "")
    if str(binaries.get("docker") or "").startswith("/snap/") or root.startswith("/var/snap/"):
        yield (
            "Docker comes from snap, whose confinement keeps the NVIDIA runtime and most host folders out of "
            "containers. Remove it (snap remove docker) and run this again to get Docker from a package."
        )


def _podman(probe: Probe) -> Iterator[str]:
    if (probe.get("binaries") or {}).get("podman"):
        yield (
            "docker on this node is a wrapper around podman (package podman-docker). Remove that package and run this "
            "again: the container and its GPUs are asked for in Docker's own words."
        )


def _rootless(probe: Probe) -> Iterator[str]:
    options = (probe.get("info") or {}).get("SecurityOptions") or []
    if any("rootless" in str(option) for option in options):
        yield (
            "Docker runs rootless, so neither privileges nor limits for RDMA can be granted. Use a Docker Engine that "
            "runs as root (unset DOCKER_HOST and the docker context of root, then run this again)."
        )


def _silent(probe: Probe, final: bool) -> Iterator[str]:
    if not _present(probe) or _answers(probe) or (_startable(probe) and not final):
        return
    service = probe.get("service") or {}
    state = " ".join(f"{key}={value}" for key, value in service.items() if key != "journal" and value)
    journal = "\n  ".join(str(line) for line in service.get("journal") or [])
    yield (
        f"Docker is installed but does not answer: {probe.get('error') or 'no reason given'}\n"
        f"  Service docker: {state or 'unknown'}.\n"
        + (f"  Last words in its journal:\n  {journal}\n" if journal else "")
        + "  An existing Docker is used as it is, so it was not touched. Repair it on the node "
        "(systemctl status docker; journalctl -u docker -n 50; systemctl start docker) and run this again."
    )


def _startable(probe: Probe) -> bool:
    """Stopped, and ours: an installation that was cut short before its first start."""
    return _ours(probe) and (probe.get("service") or {}).get("ActiveState") in ("inactive", None)


def _elsewhere(probe: Probe, path: str) -> Iterator[str]:
    used = _config_path(probe.get("command_line") or [])
    if used and used != path:
        yield f"dockerd reads {used}, not {path}. Set docker_engine_daemon_config_path: {used}."


def _option(word: str) -> str:
    """An option without its value where that might hold a password."""
    return word.split("=", 1)[0] if "@" in word else word


def _clashes(probe: Probe, before: Mapping[str, Any], merged: Mapping[str, Any]) -> Iterator[str]:
    given = flags(probe.get("command_line") or [])
    for key in sorted(set(given) & set(merged)):
        if before.get(key) != merged[key]:
            yield (
                f"daemon.json may not set {key!r}: dockerd is started with {_option(given[key])!r} already and would refuse to "
                "start with both. Take it out of docker_engine_daemon_config, or out of the service's command line."
            )


def _python_problems(probe: Probe, final: bool) -> Iterator[str]:
    python = probe.get("python") or {}
    sdk, requests = version_of(python.get("docker")), version_of(python.get("requests"))
    if sdk and requests and sdk < FIRST_GOOD_SDK and requests >= LAST_REQUESTS_FOR_OLD_SDK:
        yield (
            f"Python's docker {python.get('docker')} cannot work with requests {python.get('requests')} (it ends in "
            "'Not supported URL scheme http+docker'), a mix of pip and distribution packages. Remove the one from pip, "
            "or upgrade docker to 7.1 or newer."
        )
    missing = _missing_python(probe)
    if final and missing:
        yield (
            f"{python.get('executable')}, the Python that Ansible uses on this node, cannot import "
            f"{' and '.join(missing)}. The packages of docker_engine_python_packages belong to another Python: point "
            "ansible_python_interpreter at the distribution's, or install them into this one."
        )


def _gpus_work(probe: Probe, options: Mapping[str, Any]) -> bool:
    """Docker knows the runtime, or it gives GPUs to containers without one and the toolkit is not of our making."""
    if "nvidia" in _runtimes(probe):
        return True
    nvidia = probe.get("nvidia") or {}
    ours = set(probe.get("installed") or []) & set(options.get("nvidia_packages") or [])
    return bool(nvidia.get("hook") or nvidia.get("cdi")) and not ours


def _toolkit_missing() -> Iterator[str]:
    yield (
        "Docker still knows no runtime named nvidia, though docker_engine_nvidia_toolkit is true. Look at runtimes in "
        "daemon.json and at docker info on the node."
    )


def _missing_python(probe: Probe) -> list[str]:
    python = probe.get("python") or {}
    return [name for name in ("docker", "requests") if not python.get(name)]


def _proxies(options: Mapping[str, Any]) -> dict[str, str]:
    names = ("http_proxy", "https_proxy", "no_proxy")
    return {name.replace("_", "-"): str(options[name]) for name in names if options.get(name)}


def _drop_in(proxies: Mapping[str, str]) -> str:
    lines = [f'Environment="{key.replace("-", "_").upper()}={value}"' for key, value in proxies.items()]
    # Percent signs are specifiers to systemd.
    text = "\n".join(["# Ansible managed: role trainyard.swift.docker_engine", "[Service]", *lines, ""])
    return text.replace("%", "%%")


def _wanted_config(probe: Probe, options: Mapping[str, Any]) -> dict[str, Any]:
    wanted = dict(options.get("daemon_config") or {})
    proxies = _proxies(options)
    if proxies and _major(probe) >= PROXIES_IN_DAEMON_CONFIG:
        wanted["proxies"] = merge(wanted.get("proxies") or {}, proxies)
    return wanted


def _wanted_drop_in(probe: Probe, options: Mapping[str, Any]) -> str | None:
    proxies = _proxies(options)
    if not proxies or not _present(probe) or not _major(probe) or _major(probe) >= PROXIES_IN_DAEMON_CONFIG:
        return None
    return _drop_in(proxies)


def _runtimes(probe: Probe) -> set[str]:
    return set((probe.get("info") or {}).get("Runtimes") or {})


def _how(probe: Probe, changed: Sequence[str], more: bool) -> str:
    """none, reload or restart: the least that makes the changes work."""
    pending = str(probe.get("pending") or "none")
    if not _answers(probe):
        return "none"
    if more or pending == "restart" or set(changed) - RELOADABLE:
        return "restart"
    return "reload" if changed or pending == "reload" else "none"


def _reasons(changed: Sequence[str], drop_in: bool, toolkit: bool, probe: Probe) -> list[str]:
    reasons = [f"daemon.json: {key}" for key in changed]
    if drop_in:
        reasons.append("proxy settings of the service")
    if toolkit:
        reasons.append("NVIDIA runtime")
    if probe.get("pending"):
        reasons.append("a change that an earlier run left unfinished")
    return reasons


def _ended(probe: Probe, how: str, changed: Sequence[str]) -> dict[str, list[Any]]:
    """The running containers that a restart would end: others' by name, ours with what is needed to look into them."""
    outlives = (probe.get("info") or {}).get("LiveRestoreEnabled") and not set(changed) & NOT_OUTLIVED
    running = [] if how != "restart" or outlives else probe.get("containers") or []
    return {
        "others": sorted(container["name"] for container in running if not container["ours"]),
        "ours": [container for container in running if container["ours"]],
    }


def plan(probe: Probe, options: Mapping[str, Any], final: bool = False) -> dict[str, Any]:
    """Everything to do on this node, and everything that forbids it. Nothing to do is the steady state."""
    path = str(options["daemon_config_path"])
    before, problems = parse_config((probe.get("daemon_config") or {}).get("text"), path)
    merged = merge(before, _wanted_config(probe, options))
    changed = sorted(key for key in set(before) | set(merged) if before.get(key) != merged.get(key))
    drop_in = _wanted_drop_in(probe, options)
    drop_in_changed = drop_in is not None and drop_in != probe.get("drop_in")
    toolkit = bool(options.get("nvidia_toolkit")) and not _gpus_work(probe, options)
    problems += [
        *_snap(probe),
        *_podman(probe),
        *_rootless(probe),
        *_silent(probe, final),
        *_elsewhere(probe, path),
        *_clashes(probe, before, merged),
        *_python_problems(probe, final),
        *(_toolkit_missing() if final and toolkit else ()),
    ]
    held = set(probe.get("held") or [])
    how = _how(probe, changed, drop_in_changed or toolkit)
    return {
        "install": not _present(probe),
        "start": _present(probe) and not _answers(probe) and _startable(probe),
        "python": bool(_missing_python(probe)),
        "config": {"path": path, "differs": bool(changed), "text": json.dumps(merged, indent=4) + "\n"},
        "validate": _major(probe) >= VALIDATES,
        "drop_in": {"differs": drop_in_changed, "text": drop_in or ""},
        "toolkit": {
            "install": toolkit and not (probe.get("binaries") or {}).get("nvidia-ctk"),
            "configure": toolkit and "nvidia" not in (merged.get("runtimes") or {}),
        },
        "hold": sorted(set(probe.get("installed") or []) & set(probe.get("packages") or []) - held),
        "apply": how,
        "ended": _ended(probe, how, changed),
        "reasons": _reasons(changed, drop_in_changed, toolkit, probe) if how != "none" else [],
        "problems": problems,
    }
