# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a job on this host again and again until it is where the user wants it, on all hosts of the play."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.trainyard.swift.plugins.plugin_utils._waiting import (
    Answer,
    Outcome,
    judge,
    pause,
    progress_line,
    timed_out,
    with_age,
    worth_showing,
)

_MODULE = "trainyard.swift.swift_job_info"
#: Looks that may fail in a row before a host counts as unreachable: a network may hiccup during a long wait.
_TRIES = 3
#: Answers older than this belong to an earlier wait.
_STALE_SECONDS = 30.0


class Board:
    """Where the workers of one wait, one for each host, leave their latest answers for each other."""

    def __init__(self, key: str, started: float) -> None:
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._folder = os.path.join(str(vars(C)["DEFAULT_LOCAL_TMP"]), f"trainyard-wait-{digest}")
        self._started = started
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def put(self, answer: Answer) -> None:
        """Leave this host's answer."""
        path = os.path.join(self._folder, hashlib.sha256(answer.host.encode()).hexdigest()[:16])
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump(answer.as_dict(), stream)
        os.replace(f"{path}.new", path)

    def answers(self, hosts: list[str]) -> list[Answer]:
        """The latest answers of all hosts, in the order of the play."""
        found = {}
        for name in os.listdir(self._folder):
            if name.endswith(".new"):
                continue
            with open(os.path.join(self._folder, name), encoding="utf-8") as stream:
                answer = Answer(**json.load(stream))
            if answer.time >= self._started - _STALE_SECONDS:
                found[answer.host] = answer
        return [found[host] for host in hosts if host in found]


class ActionModule(ActionBase):
    """Runs the module once, or until its answers are what is waited for."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point for Ansible."""
        super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        wait_for = str(self._task.args.get("wait_for", "none"))
        if wait_for == "none" or self._task.check_mode:
            return self._look(variables)
        return self._wait(wait_for, variables)

    def _look(self, variables: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(
            module_name=_MODULE, module_args=dict(self._task.args), task_vars=variables
        )
        return result

    def _wait(self, wait_for: str, variables: dict[str, Any]) -> dict[str, Any]:
        host = str(variables["inventory_hostname"])
        hosts = [str(name) for name in variables.get("ansible_play_batch") or [host]]
        job = str(self._task.args.get("name"))
        given = self._task.args.get("wait_timeout", 1800)
        try:
            patience = float(given)
        except (TypeError, ValueError):
            return {
                "failed": True,
                "msg": f"wait_timeout is {given!r}. Give the seconds to wait as a number, such as 1800.",
            }
        started = time.monotonic()
        board = Board(f"{self._task._uuid} {job} {wait_for}", started)
        result = self._first_look(board, host, variables)
        if not result.get("jobs"):
            return result  # the module has refused its options, or could not be run
        shown: list[Answer] = []
        shown_at = 0.0
        while True:
            instant = time.monotonic()
            board.put(Answer.from_job(host, instant, result["jobs"][0]))
            answers = [with_age(answer, wait_for, instant) for answer in board.answers(hosts)]
            waited = instant - started
            if answers[0].host == host and worth_showing(answers, shown, waited - shown_at):
                self._display.display(progress_line(job, answers, hosts, waited))
                shown, shown_at = answers, waited
            outcome = judge(wait_for, answers, hosts, waited)
            if outcome is None and waited >= patience:
                outcome = timed_out(wait_for, answers, hosts, patience)
            if outcome is not None:
                return self._ended(outcome, result, waited, variables)
            time.sleep(min(pause(waited), max(0.1, patience - waited)))
            result = self._look_again(board, host, variables)

    def _first_look(self, board: Board, host: str, variables: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._look(variables)
        except AnsibleError as exc:
            board.put(Answer(host, time.monotonic(), "unreachable", reason=str(exc)))
            raise

    def _look_again(self, board: Board, host: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Look, and put up with a connection or a sudo that fails now and then. Tells the others if it is really gone."""
        for attempt in range(1, _TRIES + 1):
            try:
                result = self._look(variables)
                if result.get("jobs"):
                    return result
                reason = str(result.get("msg", "no answer"))
                raise AnsibleConnectionFailure(f"The job could not be looked at: {reason}")
            except AnsibleError as exc:
                if attempt == _TRIES:
                    board.put(Answer(host, time.monotonic(), "unreachable", reason=str(exc)))
                    raise
                self._display.vv(f"attempt {attempt} to look at {host} failed: {exc}")
                time.sleep(2.0 * attempt)
        raise AnsibleConnectionFailure("not reached")  # the loop above always returns or raises

    def _ended(
        self, outcome: Outcome, result: dict[str, Any], waited: float, variables: dict[str, Any]
    ) -> dict[str, Any]:
        if not outcome.satisfied:
            # What has just gone wrong elsewhere may show here an instant later.
            result = self._last_look(result, variables)
        return {
            **result,
            "satisfied": outcome.satisfied,
            "wait_reason": outcome.reason,
            "elapsed": round(waited, 1),
        }

    def _last_look(self, result: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1)
        try:
            latest = self._look(variables)
        except AnsibleError:
            return result
        return latest if latest.get("jobs") else result
