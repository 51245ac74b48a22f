# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Docker says when a container cannot be made, in words that help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """A pattern in Docker's message, and what it means; \\1 is the pattern's first group."""

    pattern: str
    text: str


CAUSES = (
    Cause(
        r"rlimit(?:s)? type 8",
        "the node cannot grant the memlock limit that was asked for: its own hard limit is lower, as in many "
        "virtual machines and sandboxes. Raise the limit of the Docker service (LimitMEMLOCK=infinity), or take "
        "memlock out of modelscope_container_ulimits where no RDMA is used.",
    ),
    Cause(
        r"rlimit(?:s)? type 7",
        "the node cannot grant the nofile limit that was asked for: it is above its own hard limit (fs.nr_open, or "
        "LimitNOFILE of the Docker service). Raise that, or ask for less in modelscope_container_ulimits.",
    ),
    Cause(
        r"rlimit",
        "the node cannot grant a limit that was asked for. Raise the limit of the Docker service, or ask for less in "
        "modelscope_container_ulimits.",
    ),
    Cause(
        r"could not select device driver",
        "Docker on this node knows no NVIDIA runtime: the NVIDIA container toolkit is missing, or Docker was not "
        "restarted after it came. Set docker_engine_nvidia_toolkit: true and run the role docker_engine (where the toolkit "
        "is there already, that role restarts nothing: run systemctl restart docker on the node when no container runs); "
        "on a node without GPUs set modelscope_container_gpus: none.",
    ),
    Cause(
        r"unsatisfied condition: (\S+)",
        "the image needs \\1, which the node's NVIDIA driver does not offer. Upgrade the driver, or take an image "
        "built for an older CUDA.",
    ),
    Cause(
        r"nvidia-container-cli|NVML|nvml error",
        "the NVIDIA container toolkit could not reach the driver. Try nvidia-smi on the node: after a driver upgrade "
        "it needs a reboot.",
    ),
    Cause(
        r"gathering device information[^\"]*\"([^\"]+)\"|gathering device information",
        "a device of modelscope_container_devices is not there on the node (\\1). Load its driver, or take it out of "
        "the list where the node has none.",
    ),
    Cause(
        r"user ?namespace",
        "Docker remaps users on this node (userns-remap), which forbids privileged containers and the host's network. "
        "Set modelscope_container_userns_mode: host.",
    ),
    Cause(
        r"unable to apply caps|capset|CAP_[A-Z_]+|capabilit(?:y|ies).*not (?:permitted|available)",
        "the node cannot grant the capabilities that were asked for. Docker older than 23 asks for every one the "
        "kernel knows when privileged: use a newer Docker, or modelscope_container_privileged: false.",
    ),
    Cause(
        r"unknown or invalid runtime name: (\S+)",
        "Docker's configuration names the runtime \\1, which it does not have. Repair runtimes in daemon.json.",
    ),
    Cause(
        r"executable file not found",
        "the image has no program of the name in modelscope_container_entrypoint.",
    ),
    Cause(
        r"no space left on device",
        "the disk of Docker's data folder is full. Free space there (docker system df), or move it with data-root in "
        "docker_engine_daemon_config.",
    ),
    Cause(
        r"bind source path does not exist: (\S+)",
        "a folder of modelscope_container_volumes is not there on the node (\\1).",
    ),
    Cause(
        r"toomanyrequests|rate limit",
        "the registry limits anonymous downloads. Give a login in modelscope_container_registry_login.",
    ),
    Cause(
        r"unauthorized|authentication required|denied: ",
        "the registry wants a login, or refused the one it got. Check modelscope_container_registry_login and the "
        "image's name.",
    ),
    Cause(
        r"manifest unknown|manifest for \S+ not found|not found: manifest|repository does not exist",
        "the registry has no such image. Check modelscope_container_image for a typing error.",
    ),
    Cause(
        r"fetching server API version|Cannot connect to the Docker daemon|Failed to import the required Python library|"
        r"Error connecting",
        "Docker or the Python libraries for it are missing on the node, or Docker does not run. Run the role docker_engine "
        "first; it says what is wrong.",
    ),
    Cause(
        r"no such host|i/o timeout|connection refused|network is unreachable|TLS handshake|Temporary failure|"
        r"context deadline exceeded|Client\.Timeout",
        "the node does not reach the registry. Set a proxy for Docker (docker_engine_https_proxy), choose a nearer "
        "modelscope_container_region, or bring the image as a file (modelscope_container_archive).",
    ),
)

OTHERWISE = "Docker's own words are all there is. Look into its journal on the node (journalctl -u docker)."


def cause(message: str) -> str:
    """The likely cause and the remedy for a message of Docker's."""
    for known in CAUSES:
        found = re.search(known.pattern, message, re.IGNORECASE)
        if found:
            groups = found.groups()
            return known.text.replace("\\1", (groups[0] if groups else "") or "see below")
    return OTHERWISE


def explain(result: Mapping[str, Any] | str, what: str, node: str) -> str:
    """One paragraph: what failed, where, why, what to do, and Docker's own words."""
    message = result if isinstance(result, str) else str(result.get("msg") or result.get("stderr") or result)
    return f"{node}: {what} failed: {cause(message)} Docker said: {message.strip()}"
