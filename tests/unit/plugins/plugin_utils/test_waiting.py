# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _waiting
from ansible_collections.trainyard.swift.plugins.plugin_utils._waiting import Answer, Outcome
from hypothesis import given
from hypothesis import strategies as st

HOSTS = ["node1", "node2"]


def _answer(host: str, state: str = "running", **more: Any) -> Answer:
    return Answer(host=host, time=0.0, state=state, **more)


_ONE = _answer("node1", confirmed=True)
_TWO = _answer("node2", confirmed=True)
_DONE = [_answer(host, "finished", confirmed=True) for host in HOSTS]


@pytest.mark.parametrize(
    ("wait_for", "answers", "waited", "outcome"),
    [
        ("confirmed", [_ONE, _TWO], 5, Outcome(True, "the job is confirmed on all hosts")),
        ("confirmed", [_ONE, _answer("node2")], 5, None),
        ("confirmed", [_ONE], 5, None),
        # node2 has no worker of its own: too few forks, or the task is skipped there.
        ("confirmed", [_ONE], 61, Outcome(True, "the job is confirmed on all hosts")),
        ("confirmed", _DONE, 5, Outcome(True, "the job is confirmed on all hosts")),
        (
            "confirmed",
            [_ONE, _answer("node2", "finished")],
            5,
            Outcome(False, "node2: finished, but was never seen training with the right world size"),
        ),
        ("ended", [_ONE, _TWO], 5, None),
        ("ended", [_DONE[0], _TWO], 5, None),
        ("ended", _DONE, 5, Outcome(True, "the job has finished on all hosts")),
        ("ended", [_DONE[0], _answer("node2", "failed", reason="rc 1")], 5, Outcome(False, "node2: failed (rc 1)")),
        ("confirmed", [_ONE, _answer("node2", "lost")], 5, Outcome(False, "node2: lost")),
        ("confirmed", [_answer("node2", "stopped")], 5, Outcome(False, "node2: stopped")),
        ("ended", [_answer("node2", "absent")], 5, Outcome(False, "node2: absent")),
        ("ended", [_ONE, _answer("node2", "unreachable", reason="ssh")], 5, Outcome(False, "node2: unreachable (ssh)")),
        ("confirmed", [_answer("node1", "starting"), _TWO], 5, None),
    ],
)
def test_judge(wait_for: str, answers: list[Answer], waited: float, outcome: Outcome | None) -> None:
    assert _waiting.judge(wait_for, answers, HOSTS, waited) == outcome


def test_a_timeout_names_every_host_that_is_late() -> None:
    answers = [_ONE, _answer("node2", waiting_for="the first logged step")]
    assert _waiting.timed_out("confirmed", answers, [*HOSTS, "node3"], 60) == Outcome(
        False, "not confirmed after 60 s, waiting for: node2: the first logged step; node3: has not answered"
    )


@given(st.floats(min_value=0, max_value=1e6))
def test_pauses_grow_from_2_to_10_seconds(waited: float) -> None:
    assert 2 <= _waiting.pause(waited) <= 10
    assert _waiting.pause(waited) <= _waiting.pause(waited + 1)


@pytest.mark.parametrize(
    ("answers", "waited", "line"),
    [
        ([], 0, "demo: 2 not heard of yet (0:00)"),
        ([_answer("node1", "starting")], 5.4, "demo: 1 starting, 1 not heard of yet (0:05)"),
        (
            [_answer("node1", waiting_for="the first logged step"), _answer("node2", waiting_for="the trainer to end")],
            75,
            "demo: 2 running, waiting for the first logged step (node1), waiting for the trainer to end (node2) (1:15)",
        ),
        (
            [_answer("node1", step=3, steps=25, loss=5.80123, s_per_it=0.123456), _answer("node2")],
            3723,
            "demo: 2 running, step 3/25, loss 5.801, 0.123 s/it (1:02:03)",
        ),
        ([_answer("node1", step=3)], 1, "demo: 1 running, 1 not heard of yet, step 3/? (0:01)"),
    ],
)
def test_progress_line(answers: list[Answer], waited: float, line: str) -> None:
    assert _waiting.progress_line("demo", answers, HOSTS, waited) == line


@pytest.mark.parametrize(
    ("answers", "shown", "silent", "worth"),
    [
        ([_ONE], [], 0, True),
        ([_ONE], [_ONE], 1, False),
        ([_ONE], [_ONE], 60, True),
        ([_answer("node1", "failed")], [_ONE], 0, True),
        ([_answer("node1", step=1)], [_answer("node1")], 0, True),
        ([_answer("node1", step=2)], [_answer("node1", step=1)], 5, False),
        ([_answer("node1", step=2)], [_answer("node1", step=1)], 15, True),
    ],
)
def test_worth_showing(answers: list[Answer], shown: list[Answer], silent: float, worth: bool) -> None:
    assert _waiting.worth_showing(answers, shown, silent) is worth


def test_an_answer_survives_the_way_through_a_file() -> None:
    job = {"state": "failed", "reason": "rc 1", "error": "ValueError: x", "progress": {"step": 3, "loss": 1.5}}
    answer = Answer.from_job("node1", 1.5, job)
    assert (answer.reason, answer.step, answer.loss, answer.s_per_it) == ("ValueError: x", 3, 1.5, None)
    assert Answer(**answer.as_dict()) == answer
