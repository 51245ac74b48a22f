# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps nodes from answering: the failures of Ansible's first contact, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import a_mapping, list_or_empty, mapping_or_empty

# Pattern in Ansible's message, cause, remedy. The first match counts.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        r"missing sudo password|password is required|requires? a password|a terminal is required",
        "sudo asks for a password and none was given",
        "Set ansible_become_password for it (vault), or run with --ask-become-pass.",
    ),
    (
        r"incorrect (sudo |become |su )?password|sorry, try again|waiting for become success|"
        r"incorrect password attempt|authentication fail",
        "sudo did not accept the password",
        "Correct ansible_become_password for it (vault), or run with --ask-become-pass.",
    ),
    (
        r"not in the sudoers file|not allowed to execute|may not run sudo",
        "its ssh user may not use sudo",
        "Give that user sudo rights on the node, or set ansible_user to one that has them.",
    ),
    (
        r"sudo: (command )?not found|sudo: not found|no such file or directory: '?sudo",
        "there is no sudo on it",
        "Install sudo on the node, or set ansible_user: root.",
    ),
    (
        r"timed? ?out waiting for (privilege|become)|waiting for privilege escalation prompt",
        "sudo took too long to answer (slow name service on the node, or many nodes at once)",
        "Raise `timeout` in ansible.cfg, or give the ssh user NOPASSWD in sudoers.",
    ),
    (
        r"python[0-9.]*:? (command )?not found|no python interpreters? found|interpreter .{0,200}was not found|"
        r"python[0-9.]*: no such file|failed to discover a python|python interpreter .* not found",
        "Python was not found on it",
        "Install python3 (3.9 or newer) on the node, or set ansible_python_interpreter to where it is.",
    ),
    (
        r"permission denied \(|invalid/incorrect password|publickey|too many authentication failures",
        "ssh did not accept our user or key",
        "Check ansible_user and ansible_ssh_private_key_file with `ssh -v`, or load the key into the ssh agent.",
    ),
    (
        r"host key verification failed|remote host identification has changed",
        "its ssh host key is unknown or has changed",
        "Make sure that it is the right machine, and accept its key once with `ssh`.",
    ),
    (
        r"could not resolve hostname|name or service not known",
        "its name is unknown here",
        "Set ansible_host to its address.",
    ),
    (
        r"connection refused|connection timed out|no route to host|network is unreachable|"
        r"connection (reset|closed)|operation timed out|failed to connect",
        "ssh does not get through",
        "Check that the node is up, and ansible_host, ansible_port and the firewall.",
    ),
    (
        r"no space left on device|read-only file system",
        "its disk is full or read-only",
        "Make room on the node (Ansible needs a temporary directory, see ansible_remote_tmp).",
    ),
)
_UNKNOWN = (
    "it did not do what was asked",
    "Try `ansible <node> -b -m ansible.builtin.setup` and correct what it says.",
)


def _told(result: Mapping[str, Any]) -> str:
    """All that Ansible says about a failure, for the patterns."""
    texts = (str(result.get(key) or "") for key in ("msg", "module_stderr", "module_stdout", "stderr"))
    return "\n".join(text for text in texts if text)


def _shown(result: Mapping[str, Any]) -> str:
    """Ansible's own message and the node's, on one line that is short enough to be read."""
    texts = (str(result.get(key) or "") for key in ("msg", "module_stderr"))
    text = "; ".join(" ".join(text.split()).rstrip(".") for text in texts if text.strip()) or "no message"
    text = re.sub(r"^Task failed: (Module failed: |Action failed: )?", "", text)
    return text if len(text) <= 400 else f"{text[:400]} ..."


def contact_problem(name: str, result: Mapping[str, Any]) -> str:
    """The sentence for one node that failed."""
    told = _told(result)
    for pattern, cause, remedy in _CAUSES:
        if re.search(pattern, told, re.IGNORECASE):
            return f"{name}: {cause} ({_shown(result)}). {remedy}"
    cause, remedy = _UNKNOWN
    return f"{name}: {cause} ({_shown(result)}). {remedy}"


def _parts(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of a looped task one by one, else the result itself."""
    if "unreachable" in result or "results" not in result:
        return [result]
    return [mapping_or_empty(part) for part in list_or_empty(result["results"])]


def _problems_of(name: str, result: Mapping[str, Any]) -> list[str]:
    """What our own modules say about themselves is clear enough; all else is put in words."""
    stated = list_or_empty(result.get("problems"))
    return [f"{name}: {problem}" for problem in stated] or [contact_problem(name, result)]


def contact_problems(results: Any, expected: str) -> list[str]:
    """Sentences for every node with a result that lacks the key that a good answer has."""
    return [
        problem
        for name, result in a_mapping(results, "The results").items()
        for part in _parts(mapping_or_empty(result))
        if expected not in part and not part.get("skipped")
        for problem in _problems_of(str(name), part)
    ]
