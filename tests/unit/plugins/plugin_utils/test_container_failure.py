# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_failure as container_failure

OCI = "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (OCI + "unable to start container process: error setting rlimit type 8: operation not permitted", "memlock"),
        (
            OCI + "error setting rlimits for ready process: error setting rlimit type 7: operation not permitted",
            "nofile",
        ),
        ("error setting rlimit type 3: operation not permitted", "a limit that was asked for"),
        (
            'could not select device driver "nvidia" with capabilities: [[gpu]]',
            "docker_engine_nvidia_toolkit: true",
        ),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver",
            "the image needs cuda>=13.0,",
        ),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "could not reach the driver"),
        (
            'error gathering device information while adding custom device "/dev/infiniband": no such file',
            "not there on the node (/dev/infiniband)",
        ),
        ("error gathering device information", "(see below)"),
        ("privileged mode is incompatible with user namespaces", "modelscope_container_userns_mode: host"),
        (OCI + "unable to apply caps: operation not permitted", "Docker older than 23"),
        ("unknown or invalid runtime name: nvidia", "the runtime nvidia,"),
        (OCI + 'exec: "sleep": executable file not found in $PATH', "modelscope_container_entrypoint"),
        ("write /var/lib/docker/tmp/x: no space left on device", "Docker's data folder is full"),
        ("invalid mount config for type bind: bind source path does not exist: /data", "(/data)"),
        ("toomanyrequests: too many requests", "registry limits anonymous"),
        ("unauthorized: authentication required", "wants a login"),
        ("manifest for swift:9 not found: manifest unknown", "no such image"),
        ("dial tcp: lookup registry.example: no such host", "does not reach the registry"),
        ("something new", "journalctl -u docker"),
    ],
)
def test_causes(said: str, words: str) -> None:
    text = container_failure.explain({"msg": said}, "making container trainyard", "node1")
    assert text.startswith("node1: making container trainyard failed: ")
    assert words in text
    assert text.endswith(said)


@pytest.mark.parametrize(
    ("result", "said"), [("plain", "plain"), ({"stderr": "broken"}, "broken"), ({"rc": 1}, "{'rc': 1}")]
)
def test_any_result_is_shown(result: Any, said: str) -> None:
    assert container_failure.explain(result, "it", "node1").endswith(f"Docker said: {said}")
