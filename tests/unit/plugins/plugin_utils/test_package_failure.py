# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _package_failure as package_failure

SDK = ["python3-docker", "python3-requests"]


@pytest.mark.parametrize(
    ("result", "packages", "family", "words"),
    [
        (
            {
                "msg": "Failed to install some of the specified packages",
                "failures": ["No package python3-docker available."],
            },
            SDK,
            "RedHat",
            "python3-docker is in EPEL",
        ),
        ({"msg": "No package matching 'python3-docker' is available"}, SDK, "Debian", "do not have such a package"),
        ({"failures": ["No package docker-ce available."]}, ["docker-ce"], "RedHat", "docker_engine_source"),
        (
            {
                "msg": "Failed to update apt cache: W:Updating from such a repository can't be done securely, E:The "
                "repository 'https://broken.example stable Release' does not have a Release file."
            },
            ["docker.io"],
            "Debian",
            "perhaps one that has nothing to do with Docker",
        ),
        (
            {"msg": "Failed to update apt cache: E:Could not resolve 'mirror.example'"},
            ["docker.io"],
            "Debian",
            "docker_engine_https_proxy",
        ),
        (
            {"msg": "Failed to download metadata for repo 'x': Cannot download repomd.xml: Status code: 404"},
            SDK,
            "RedHat",
            "/etc/yum.repos.d",
        ),
        ({"msg": "E: Could not get lock /var/lib/dpkg/lock-frontend"}, SDK, "Debian", "docker_engine_lock_timeout"),
        ({"msg": "You don't have enough free space"}, SDK, "Debian", "by hand"),
        ({"stderr": "write: No space left on device"}, SDK, "Debian", "Free space there"),
        ({"msg": "E: Unmet dependencies."}, SDK, "Debian", "dpkg --configure -a"),
        ({}, SDK, "Debian", "The package manager said: nothing"),
    ],
)
def test_causes(result: dict[str, Any], packages: list[str], family: str, words: str) -> None:
    text = package_failure.explain(result, packages, "node1", family)
    assert text.startswith(f"node1: installing {', '.join(packages)} failed: ")
    assert words in text


def test_words_are_said_once() -> None:
    assert package_failure.words({"msg": "a\n b", "stderr": "b\nc"}) == "a / b / c"
