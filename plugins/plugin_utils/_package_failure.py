# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt and dnf say when packages cannot be installed, in words that help."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

EPEL = (
    "python3-docker is in EPEL, which this node does not have or does not reach. Enable EPEL on the node (dnf install "
    "epel-release; on RHEL itself by its URL, see the EPEL documentation), or install Python's docker 7.1 or newer and "
    "requests yourself for the Python that Ansible uses and set docker_engine_python_packages: []"
)
SOURCE = (
    "a package source of this node is broken, perhaps one that has nothing to do with Docker. Repair or disable it on "
    "the node (/etc/apt/sources.list.d, /etc/yum.repos.d) until apt-get update or dnf makecache succeeds"
)
CAUSES: Sequence[tuple[str, str]] = (
    (
        r"could not get lock|unable to acquire.*lock|lockfile is held|waiting for process",
        "another package manager holds the lock. Wait for its end (often unattended-upgrades), or raise "
        "docker_engine_lock_timeout",
    ),
    (
        r"no space left on device|not enough free space|disk requirements",
        "the disk of the node is full. Free space there",
    ),
    (
        r"no package (?:matching )?\S+ (?:is )?available|unable to (?:find|locate)|has no installation candidate",
        "the package sources of this node do not have such a package. Check docker_engine_source, "
        "docker_engine_packages and docker_engine_python_packages, and the sources of the node",
    ),
    (
        r"could ?n[o']t resolve|temporary failure|connection (?:refused|timed out|failed)|network is unreachable|"
        r"could not connect|curl error|timeout was reached|proxy",
        "the node does not reach one of its package sources. Set docker_engine_http_proxy and docker_engine_https_proxy "
        "where it needs a proxy; a source that is not needed must be repaired or disabled on the node "
        "(/etc/apt/sources.list.d, /etc/yum.repos.d)",
    ),
    (
        r"failed to update apt cache|release file|not signed|NO_PUBKEY|gpg|failed to fetch|malformed|"
        r"failed to download metadata|cannot download repomd|status code: \d+",
        SOURCE,
    ),
    (
        r"unmet dependencies|broken packages|conflict|dpkg was interrupted|nothing provides",
        "the package manager of this node cannot satisfy the dependencies. Repair it there (apt-get -f install, "
        "dpkg --configure -a, dnf check), or name other packages in docker_engine_packages",
    ),
)
OTHERWISE = "see the words of the package manager, and try the same installation on the node by hand"


def words(result: Mapping[str, Any]) -> str:
    """Everything that the package manager said, once each, in at most a few lines."""
    said = [str(result.get("msg") or ""), *map(str, result.get("failures") or []), str(result.get("stderr") or "")]
    lines = [line.strip() for text in said for line in text.splitlines() if line.strip()]
    return " / ".join(dict.fromkeys(lines))[:1000] or "nothing"


def _cause(said: str, packages: Sequence[str], family: str) -> str:
    missing = re.search(r"no package \S*python3-docker|unable to find.*python3-docker", said, re.IGNORECASE)
    if family == "RedHat" and missing and "python3-docker" in packages:
        return EPEL
    for pattern, text in CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            return text
    return OTHERWISE


def explain(result: Mapping[str, Any], packages: Sequence[str], node: str, family: str) -> str:
    """One paragraph: what failed, where, why, what to do, and the package manager's own words."""
    said = words(result)
    cause = _cause(said, packages, family)
    return f"{node}: installing {', '.join(packages)} failed: {cause}. Then run this again. The package manager said: {said}"
