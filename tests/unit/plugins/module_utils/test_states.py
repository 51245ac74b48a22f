# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _states
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("status", "held", "exists", "state", "reason"),
    [
        (None, False, False, "absent", ""),
        (None, True, True, "starting", ""),
        (None, False, True, "lost", "the folder of the job holds no readable status"),
        ({"state": "starting"}, True, True, "starting", ""),
        ({"state": "starting"}, False, True, "lost", "the supervisor ended before the training started; it was killed"),
        ({"state": "running"}, True, True, "running", ""),
        ({"state": "running"}, False, True, "lost", "the supervisor is gone without a word; it was killed"),
        ({"state": "nonsense"}, True, True, "running", ""),
        ({"state": "nonsense"}, False, True, "lost", "the supervisor is gone without a word; it was killed"),
        ({}, False, True, "lost", "the supervisor is gone without a word; it was killed"),
        ({"state": "finished", "reason": "rc 0"}, False, True, "finished", "rc 0"),
        # The supervisor writes its last word before it lets go of the lock.
        ({"state": "failed", "reason": "rc 1"}, True, True, "failed", "rc 1"),
        ({"state": "stopped", "reason": None}, False, True, "stopped", ""),
    ],
)
def test_observe(status: dict[str, Any] | None, held: bool, exists: bool, state: str, reason: str) -> None:
    assert _states.observe(status, held, exists, "it was killed") == (state, reason)


@given(
    st.one_of(st.none(), st.dictionaries(st.sampled_from(["state", "reason"]), st.one_of(st.none(), st.text()))),
    st.booleans(),
    st.booleans(),
)
def test_a_running_job_always_has_its_lock(status: dict[str, Any] | None, held: bool, exists: bool) -> None:
    state, _reason = _states.observe(status, held, exists, "")
    assert state in _states.STATES
    if state in _states.LIVE:
        assert held


_TABLE = [
    # state, same, replace, rerun -> action, stop first, words of the refusal
    ("absent", False, False, False, "start", False, None),
    ("starting", True, False, False, "attach", False, None),
    ("running", True, False, False, "attach", False, None),
    ("running", True, True, True, "attach", False, None),
    ("running", False, False, False, "none", False, "replace=true"),
    ("running", False, False, True, "none", False, "replace=true"),
    ("running", False, True, False, "start", True, None),
    ("finished", True, False, False, "none", False, None),
    ("finished", True, True, False, "none", False, None),
    ("finished", True, False, True, "start", False, None),
    ("finished", False, False, False, "none", False, "rerun=true"),
    ("finished", False, True, False, "none", False, "rerun=true"),
    ("finished", False, False, True, "start", False, None),
    ("failed", True, False, False, "start", False, None),
    ("failed", False, False, False, "start", False, None),
    ("stopped", True, False, False, "start", False, None),
    ("stopped", False, False, False, "start", False, None),
    ("lost", True, False, False, "start", False, None),
    ("lost", False, False, False, "start", False, None),
]


@pytest.mark.parametrize(("state", "same", "replace", "rerun", "action", "stop_first", "refused"), _TABLE)
def test_decide(
    state: str, same: bool, replace: bool, rerun: bool, action: str, stop_first: bool, refused: str | None
) -> None:
    decision = _states.decide(state, same, replace, rerun, ["arguments.max_length"])
    assert (decision.action, decision.stop_first) == (action, stop_first)
    if refused is None:
        assert decision.problem is None
        assert decision.message
    else:
        assert refused in str(decision.problem)
        assert "different: arguments.max_length" in str(decision.problem)


def test_a_refusal_without_a_readable_specification() -> None:
    assert "an unreadable earlier specification" in str(_states.decide("running", False, False, False).problem)


@given(st.sampled_from(_states.STATES), st.booleans(), st.booleans(), st.booleans())
def test_a_live_job_is_only_ever_ended_on_request(state: str, same: bool, replace: bool, rerun: bool) -> None:
    decision = _states.decide(state, same, replace, rerun)
    if decision.stop_first:
        assert state in _states.LIVE
        assert replace
    if state in _states.LIVE and not replace:
        assert decision.action != "start"


@pytest.mark.parametrize(
    ("state", "size", "expected", "logs", "step", "steps", "confirmed", "words"),
    [
        ("starting", None, 2, True, None, None, False, "the supervisor to start the trainer"),
        ("running", None, 2, True, None, None, False, "the trainer to report its world size (expected 2)"),
        ("running", 1, 2, True, 5, 9, False, "a world size of 2 (the trainer says 1)"),
        ("running", 2, 2, True, None, None, False, "the first logged step"),
        ("running", 2, 2, True, 0, 9, False, "the first logged step"),
        ("running", 2, 2, True, 5, 9, True, "the last step (now at 5 of 9)"),
        ("running", 2, 2, True, 5, None, True, "the last step (now at 5 of ?)"),
        ("running", 2, 2, False, None, None, True, "the trainer to end"),
        ("running", 2, None, False, None, None, False, "a world size of None (the trainer says 2)"),
        ("finished", 2, 2, True, 9, 9, True, ""),
        ("finished", 1, 2, True, 9, 9, False, ""),
        ("failed", 2, 2, True, 9, 9, False, ""),
        ("absent", None, None, False, None, None, False, ""),
    ],
)
def test_confirmation(
    state: str,
    size: int | None,
    expected: int | None,
    logs: bool,
    step: int | None,
    steps: int | None,
    confirmed: bool,
    words: str,
) -> None:
    assert _states.confirmed(state, size, expected, logs, step) is confirmed
    assert _states.waiting_for(state, size, expected, logs, step, steps) == words
