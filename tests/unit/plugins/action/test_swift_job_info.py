# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.trainyard.swift.plugins.action import swift_job_info as action
from ansible_collections.trainyard.swift.plugins.plugin_utils._waiting import Answer


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Scripted(action.ActionModule):
    """The plugin with a script in place of the module's answers."""

    def __init__(self, answers: list[Any], lines: list[str], **options: Any) -> None:
        self._task = types.SimpleNamespace(args={"name": "demo", **options}, check_mode=False, _uuid="task")
        self._display = types.SimpleNamespace(display=lines.append, vv=lines.append)
        self._answers = answers

    def _look(self, variables: dict[str, Any]) -> dict[str, Any]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    """No waiting in these tests, and a place for the board."""
    made = Clock()
    monkeypatch.setattr(action, "time", made)
    monkeypatch.setattr(action.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    return made


def _job(state: str = "running", **more: Any) -> dict[str, Any]:
    return {"jobs": [{"state": state, "confirmed": False, "progress": {}, **more}]}


VARIABLES = {"inventory_hostname": "node1", "ansible_play_batch": ["node1"]}
GONE = AnsibleConnectionFailure("ssh: connection timed out")


def test_a_hiccup_of_the_network_is_put_up_with(clock: Clock) -> None:
    lines: list[str] = []
    plugin = Scripted([_job(), GONE, GONE, _job("finished", confirmed=True)], lines, wait_timeout=600)
    result = plugin._wait("ended", VARIABLES)
    assert result["satisfied"] is True
    assert result["elapsed"] == 8.0
    assert lines[-1] == "demo: 1 finished (0:08)"


def test_a_host_that_stays_away_is_unreachable_to_all(clock: Clock, tmp_path: Path) -> None:
    plugin = Scripted([_job(), GONE, GONE, GONE], [], wait_timeout=600)
    with pytest.raises(AnsibleConnectionFailure):
        plugin._wait("ended", VARIABLES)
    board = action.Board("task demo ended", clock.now)
    assert [(answer.host, answer.state) for answer in board.answers(["node1"])] == [("node1", "unreachable")]


def test_a_host_that_was_never_there_is_unreachable_to_all(clock: Clock) -> None:
    with pytest.raises(AnsibleConnectionFailure):
        Scripted([GONE], [])._wait("confirmed", VARIABLES)
    assert action.Board("task demo confirmed", clock.now).answers(["node1"])[0].state == "unreachable"


def test_a_sudo_that_fails_is_put_up_with_and_told_like_a_connection(clock: Clock) -> None:
    sudo = AnsibleError("Timeout waiting for privilege escalation prompt")
    result = Scripted([_job(), sudo, _job("finished", confirmed=True)], [])._wait("ended", VARIABLES)
    assert result["satisfied"] is True
    with pytest.raises(AnsibleError, match="privilege escalation"):
        Scripted([_job(), sudo, sudo, sudo], [])._wait("ended", VARIABLES)
    (answer,) = action.Board("task demo ended", clock.now).answers(["node1"])
    assert (answer.state, answer.reason) == ("unreachable", str(sudo))


def test_refused_options_come_back_as_they_are(clock: Clock) -> None:
    refused = {"failed": True, "msg": "value of wait_for must be one of"}
    assert Scripted([refused], [])._wait("sunrise", VARIABLES) == refused


def test_a_module_that_fails_in_a_later_look_counts_as_unreachable(clock: Clock) -> None:
    failed = {"failed": True, "msg": "no space left"}
    with pytest.raises(AnsibleConnectionFailure, match="no space left"):
        Scripted([_job(), failed, failed, failed], [])._wait("ended", VARIABLES)


def test_the_last_look_may_fail(clock: Clock) -> None:
    result = Scripted([_job("failed", reason="rc 1"), GONE], [])._wait("ended", VARIABLES)
    assert (result["satisfied"], result["wait_reason"]) == (False, "node1: failed (rc 1)")
    assert result["jobs"][0]["state"] == "failed"


def test_time_runs_out(clock: Clock) -> None:
    looks = [_job(waiting_for="the first logged step") for _number in range(10)]
    result = Scripted(looks, [], wait_timeout="7")._wait("confirmed", VARIABLES)
    assert result["wait_reason"] == "not confirmed after 7 s, waiting for: node1: the first logged step"
    assert result["elapsed"] == 7.0


@pytest.mark.parametrize("given", ["abc", "", None, [5]])
def test_a_time_that_is_no_number_is_refused_in_words(clock: Clock, given: Any) -> None:
    result = Scripted([], [], wait_timeout=given)._wait("ended", VARIABLES)
    assert result["failed"] is True
    assert result["msg"].startswith(f"wait_timeout is {given!r}. Give the seconds")


def test_a_host_whose_worker_hangs_is_unreachable_to_the_others(clock: Clock) -> None:
    variables = {**VARIABLES, "ansible_play_batch": ["node1", "node2"]}
    board = action.Board("task demo ended", clock.now)
    board.put(Answer("node2", clock.now, "running"))
    result = Scripted([_job() for _number in range(100)], [], wait_timeout=3600)._wait("ended", variables)
    assert result["satisfied"] is False
    assert 300 < result["elapsed"] < 320
    assert result["wait_reason"].startswith("node2: unreachable (no answer for 3")
    assert result["wait_reason"].endswith(" s; before, it was running)")


def test_a_host_that_has_ended_its_wait_owes_no_answer(clock: Clock) -> None:
    variables = {**VARIABLES, "ansible_play_batch": ["node1", "node2"]}
    board = action.Board("task demo confirmed", clock.now)
    board.put(Answer("node2", clock.now, "running", confirmed=True))
    looks = [_job() for _number in range(60)] + [_job(confirmed=True)]
    result = Scripted(looks, [], wait_timeout=3600)._wait("confirmed", variables)
    assert (result["satisfied"], result["elapsed"] > 400) == (True, True)


def test_answers_of_an_earlier_wait_do_not_count(clock: Clock) -> None:
    board = action.Board("key", clock.now)
    board.put(Answer("node1", clock.now - 100, "failed"))
    board.put(Answer("node2", clock.now, "running"))
    (Path(board._folder) / "half.new").touch()
    assert [answer.host for answer in board.answers(["node1", "node2"])] == ["node2"]
