# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters around a run, as Ansible loads them: a good call, and one that only a playbook's mistake can make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.trainyard.swift.plugins.filter import (
    contact_problems,
    job_outputs,
    job_verdict,
    status_report,
)

RANKS: dict[str, Any] = {
    "nnodes": 1,
    "rank0": "a",
    "nodes": [{"name": "a", "rank": 0, "address": "a", "colocated": False}],
    "ranks": {"a": 0},
    "problems": [],
}
ANSWERS: dict[str, Any] = {"a": {"jobs": []}}
CALLS = [
    (contact_problems, "contact_problems", (ANSWERS, "jobs"), ([], "jobs"), []),
    (job_outputs, "job_outputs", (ANSWERS, 1), ([], 1), []),
    (
        job_verdict,
        "job_verdict",
        (ANSWERS, {"state": "absent"}),
        (ANSWERS, []),
        {"good": True, "stop": False, "lines": []},
    ),
    (
        status_report,
        "status_report",
        (ANSWERS, RANKS, []),
        (ANSWERS, {}, []),
        {
            "json": {"generated_at": "", "nodes": 1, "jobs": [], "failures": []},
            "lines": ["There is no job on 1 node."],
        },
    ),
]


@pytest.mark.parametrize(("module", "name", "good", "bad", "result"), CALLS)
def test_filter(module: Any, name: str, good: tuple[Any, ...], bad: tuple[Any, ...], result: Any) -> None:
    filters: dict[str, Callable[..., Any]] = module.FilterModule().filters()
    assert list(filters) == [name]
    assert filters[name](*good) == result
    with pytest.raises(AnsibleFilterError, match=name):
        filters[name](*bad)
