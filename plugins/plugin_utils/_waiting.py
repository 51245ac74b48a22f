# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a job on several hosts: when a wait is over, how often to look, and what to show meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

#: A host that has not answered within so many seconds takes no part in this wait (no free fork, or skipped).
JOIN_SECONDS = 60.0
_SHORTEST, _LONGEST = 2.0, 10.0
#: A line at least this often while something moves, and while nothing does.
_MOVING_SECONDS, _STILL_SECONDS = 15.0, 60.0
#: A host that is looked at in vain for so long does not answer any more, whatever it said last.
SILENT_SECONDS = 300.0
_BROKEN = ("failed", "lost", "stopped", "absent")


@dataclass(frozen=True)
class Answer:
    """What one host said when it was last asked."""

    host: str
    time: float  # of the controller's monotonic clock, which all workers of a run share
    state: str
    reason: str = ""
    confirmed: bool = False
    waiting_for: str = ""
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    s_per_it: float | None = None

    @classmethod
    def from_job(cls, host: str, time: float, job: Mapping[str, Any]) -> Answer:
        """The part of a job's description that matters here."""
        progress = job.get("progress") or {}
        return cls(
            host=host,
            time=time,
            state=str(job["state"]),
            reason=str(job.get("error") or job.get("reason") or ""),
            confirmed=bool(job.get("confirmed")),
            waiting_for=str(job.get("waiting_for") or ""),
            **{key: progress.get(key) for key in ("step", "steps", "loss", "s_per_it")},
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @property
    def broken(self) -> bool:
        """Whether the whole job cannot come to a good end any more."""
        return self.state in _BROKEN or self.state == "unreachable"

    def reached(self, wait_for: str) -> bool:
        """Whether this host is where it was waited for to be (or will never get any further)."""
        return self.state == "finished" or (wait_for == "confirmed" and self.confirmed)


@dataclass(frozen=True)
class Outcome:
    """The end of a wait."""

    satisfied: bool
    reason: str


def with_age(answer: Answer, wait_for: str, instant: float) -> Answer:
    """This answer, or that the host is unreachable: its worker hangs, and has left no new answer for too long.

    A host that is where it was waited for to be may have ended its wait, and owes no new answer.
    """
    age = instant - answer.time
    if age <= SILENT_SECONDS or answer.broken or answer.reached(wait_for):
        return answer
    return replace(answer, state="unreachable", reason=f"no answer for {age:.0f} s; before, it was {answer.state}")


def judge(wait_for: str, answers: Sequence[Answer], hosts: Sequence[str], waited: float) -> Outcome | None:
    """Whether the wait is over, from the latest answers of all hosts; nothing if it goes on."""
    broken = [answer for answer in answers if answer.broken]
    if broken:
        return Outcome(False, "; ".join(_why(answer) for answer in broken))
    missing = set(hosts) - {answer.host for answer in answers}
    if (missing and waited < JOIN_SECONDS) or not all(answer.reached(wait_for) for answer in answers):
        return None
    if wait_for == "confirmed":
        doubtful = [answer.host for answer in answers if not answer.confirmed]
        if doubtful:
            return Outcome(
                False, f"{', '.join(doubtful)}: finished, but was never seen training with the right world size"
            )
        return Outcome(True, "the job is confirmed on all hosts")
    return Outcome(True, "the job has finished on all hosts")


def timed_out(wait_for: str, answers: Sequence[Answer], hosts: Sequence[str], seconds: float) -> Outcome:
    """The end of a wait that took too long, with what each host was waiting for."""
    by_host = {answer.host: answer for answer in answers}
    late = [
        f"{host}: {by_host[host].waiting_for or by_host[host].state}"
        if host in by_host
        else f"{host}: has not answered"
        for host in hosts
        if host not in by_host or not by_host[host].reached(wait_for)
    ]
    return Outcome(False, f"not {wait_for} after {seconds:g} s, waiting for: {'; '.join(late)}")


def _why(answer: Answer) -> str:
    return f"{answer.host}: {answer.state}" + (f" ({answer.reason})" if answer.reason else "")


def pause(waited: float) -> float:
    """Seconds until the next look: short at the beginning, longer in a long wait."""
    return min(_LONGEST, max(_SHORTEST, waited / 10))


def progress_line(job: str, answers: Sequence[Answer], hosts: Sequence[str], waited: float) -> str:
    """One line about all hosts."""
    counts: dict[str, int] = {}
    for answer in answers:
        counts[answer.state] = counts.get(answer.state, 0) + 1
    parts = [f"{count} {state}" for state, count in counts.items()]
    if len(answers) < len(hosts):
        parts.append(f"{len(hosts) - len(answers)} not heard of yet")
    parts += _steps(answers) or _waits(answers)
    return f"{job}: {', '.join(parts)} ({_duration(waited)})"


def _steps(answers: Sequence[Answer]) -> list[str]:
    best = max((answer for answer in answers if answer.step), key=lambda answer: answer.step or 0, default=None)
    if best is None:
        return []
    parts = [f"step {best.step}/{'?' if best.steps is None else best.steps}"]
    if best.loss is not None:
        parts.append(f"loss {best.loss:.4g}")
    if best.s_per_it is not None:
        parts.append(f"{best.s_per_it:.3g} s/it")
    return parts


def _waits(answers: Sequence[Answer]) -> list[str]:
    waits: dict[str, list[str]] = {}
    for answer in answers:
        if answer.waiting_for:
            waits.setdefault(answer.waiting_for, []).append(answer.host)
    return [f"waiting for {what} ({', '.join(names)})" for what, names in waits.items()]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def worth_showing(answers: Sequence[Answer], shown: Sequence[Answer], silent: float) -> bool:
    """Whether something has changed that a person wants to see now, SILENT seconds after the last line."""
    if _states(answers) != _states(shown):
        return True
    moved = [(answer.step, answer.loss) for answer in answers] != [(answer.step, answer.loss) for answer in shown]
    return silent >= (_MOVING_SECONDS if moved else _STILL_SECONDS)


def _states(answers: Sequence[Answer]) -> list[tuple[str, str, bool, bool]]:
    return [(answer.host, answer.state, answer.confirmed, answer.step is None) for answer in answers]
