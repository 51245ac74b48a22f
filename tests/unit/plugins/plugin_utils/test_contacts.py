# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that do not answer are named, with cause and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _contacts
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import Misuse

# What Ansible 2.19 put into msg, as captured.
MESSAGES = [
    (
        "Task failed: Failed to connect to the host via ssh: ssh: connect to host 127.0.0.9 port 22: "
        "Connection refused",
        "ssh does not get through",
        "ansible_host, ansible_port",
    ),
    (
        "Task failed: Failed to connect to the host via ssh: ssh: Could not resolve hostname nowhere.invalid: "
        "Name or service not known",
        "its name is unknown here",
        "Set ansible_host",
    ),
    (
        "Task failed: Failed to connect to the host via ssh: trainer@10.77.0.2: "
        "Permission denied (publickey,password).",
        "ssh did not accept our user or key",
        "ansible_user",
    ),
    ("Task failed: Missing sudo password", "sudo asks for a password", "--ask-become-pass"),
    ("Task failed: Incorrect sudo password", "sudo did not accept the password", "ansible_become_password"),
    (
        'Task failed: Data could not be sent to remote host "10.77.0.11". Make sure this host can be reached over ssh: '
        "nobody2@10.77.0.11: Permission denied (publickey,password).",
        "ssh did not accept our user or key",
        "ansible_ssh_private_key_file",
    ),
    ("The module interpreter '/usr/bin/python3.99' was not found.", "Python was not found on it", "python3 (3.9"),
    ("Host key verification failed.", "ssh host key", "accept its key"),
    (
        "/bin/sh: 1: /usr/bin/python3.99: not found",
        "Python was not found on it",
        "ansible_python_interpreter",
    ),
    ("Task failed: [Errno 28] No space left on device", "its disk is full", "Make room"),
    ("something new", "it did not do what was asked (something new)", "-m ansible.builtin.setup"),
]


@pytest.mark.parametrize(("message", "cause", "remedy"), MESSAGES)
def test_cause_and_remedy(message: str, cause: str, remedy: str) -> None:
    (problem,) = _contacts.contact_problems({"node1": {"msg": message}}, "ansible_facts")
    assert problem.startswith("node1: ")
    assert cause in problem
    assert remedy in problem
    assert message.removeprefix("Task failed: ")[:40].rstrip(".") in problem


def test_what_the_node_said_counts_too() -> None:
    """As captured: the message of a module that was never started is of no help."""
    result = {
        "msg": "Module result deserialization failed: No start of json char found",
        "module_stderr": "secure is not in the sudoers file.\n",
        "module_stdout": "",
        "rc": 1,
    }
    (problem,) = _contacts.contact_problems({"node1": result}, "ansible_facts")
    assert problem.startswith("node1: its ssh user may not use sudo (Module result deserialization failed: ")
    assert "; secure is not in the sudoers file). Give that user sudo rights" in problem


def test_good_and_skipped_answers_are_no_problem() -> None:
    results: dict[str, Any] = {"a": {"jobs": []}, "b": {"skipped": True}, "c": {"results": [{"jobs": []}]}}
    assert _contacts.contact_problems(results, "jobs") == []


def test_every_node_and_every_round_of_a_loop_is_judged() -> None:
    results: dict[str, Any] = {
        "a": {"results": [{"action": "stop"}, {"msg": "first"}, {"msg": "second"}]},
        "b": {"unreachable": True, "results": [], "msg": "No route to host"},
        "c": None,
    }
    problems = _contacts.contact_problems(results, "action")
    assert [problem.split(":")[0] for problem in problems] == ["a", "a", "b", "c"]
    assert "(first)" in problems[0]
    assert "ssh does not get through" in problems[2]
    assert "(no message)" in problems[3]


def test_own_modules_speak_for_themselves() -> None:
    results = {"a": {"msg": "One.\nTwo.", "problems": ["One.", "Two."]}}
    assert _contacts.contact_problems(results, "action") == ["a: One.", "a: Two."]


def test_long_messages_are_cut() -> None:
    (problem,) = _contacts.contact_problems({"a": {"msg": "x" * 5000}}, "jobs")
    assert len(problem) < 600


def test_output_that_is_no_result_is_a_mistake_of_the_playbook() -> None:
    with pytest.raises(Misuse):
        _contacts.contact_problems(["a"], "jobs")
