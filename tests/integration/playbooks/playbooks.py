# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the real ansible-playbook, on inventories made up for a test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
PROGRAM = Path(sys.executable).parent / "ansible-playbook"


@dataclass(frozen=True)
class Run:
    """What one run of ansible-playbook has said."""

    code: int
    output: str

    @property
    def flat(self) -> str:
        """All output with single spaces, to look for sentences in."""
        return " ".join(self.output.split())

    @property
    def said(self) -> str:
        """The text of all errors, each of which Ansible shows once as it is and once as JSON."""
        found = re.findall(r"^\[ERROR\]: (.*?)(?=^Origin: |^fatal: |\Z)", self.output, re.MULTILINE | re.DOTALL)
        return " ".join(" ".join(found).split())

    def recap(self, key: str) -> dict[str, int]:
        """One number of the recap, by host."""
        lines = self.output.rpartition("PLAY RECAP")[2].splitlines()
        found = (re.match(rf"(\S+)\s+:.*\b{key}=(\d+)", line) for line in lines)
        return {match.group(1): int(match.group(2)) for match in found if match}


def write_inventory(folder: Path, hosts: dict[str, dict[str, Any]], **group_vars: Any) -> Path:
    """An inventory with these nodes, in this order."""
    path = folder / "hosts.yml"
    data = {"swift_nodes": {"hosts": hosts, "vars": group_vars}}
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def run(playbook: str | Path, inventory: Path | None, *words: str, extra: dict[str, Any] | None = None) -> Run:
    """Run a playbook of the checkout."""
    argv = [str(PROGRAM), str(playbook), *words]
    if inventory is not None:
        argv += ["-i", str(inventory)]
    if extra:
        argv += ["-e", json.dumps(extra)]
    # Not measured for coverage: Ansible starts dozens of Python processes a run, and measuring doubles their time.
    foreign = ("ANSIBLE_", "COVERAGE_")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_SSH_RETRIES": "0",
        "ANSIBLE_TIMEOUT": "5",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    output = done.stdout + done.stderr
    assert "[DEPRECATION WARNING]" not in output, output
    return Run(done.returncode, output)
