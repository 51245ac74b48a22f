# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of one node's part of a job: how they are observed, and what a request means in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATES: tuple[str, ...] = ("absent", "starting", "running", "finished", "failed", "stopped", "lost")
LIVE: tuple[str, ...] = ("starting", "running")
ENDED: tuple[str, ...] = ("finished", "failed", "stopped")
#: A job in one of these states keeps the whole run from going on.
BROKEN: tuple[str, ...] = ("failed", "stopped", "lost")


@dataclass(frozen=True)
class Decision:
    """What a request to start means: an action, whether a stop comes first, or why it is refused."""

    action: str
    stop_first: bool = False
    message: str = ""
    problem: str | None = None


def observe(status: Mapping[str, Any] | None, lock_held: bool, exists: bool, loss: str) -> tuple[str, str]:
    """The state and its reason, from the supervisor's own words and the proof of life.

    O(loss) is what the node tells about the reason, should the supervisor turn out to be gone.
    """
    if status is None:
        if not exists:
            return "absent", ""
        return ("starting", "") if lock_held else ("lost", "the folder of the job holds no readable status")
    state = str(status.get("state"))
    reason = str(status.get("reason") or "")
    if state in ENDED:
        return state, reason
    if lock_held:
        return (state if state in LIVE else "running"), reason
    if state == "starting":
        return "lost", f"the supervisor ended before the training started; {loss}"
    return "lost", f"the supervisor is gone without a word; {loss}"


def decide(state: str, same: bool, replace: bool, rerun: bool, keys: Sequence[str] = ()) -> Decision:
    """What to do about a job that shall be started."""
    if state in LIVE:
        return _decide_live(same, replace, keys)
    if state == "finished":
        return _decide_finished(same, rerun, keys)
    if state == "absent":
        return Decision("start", message="is started")
    return Decision("start", message=f"was {_past(state)} and is started again")


def _decide_live(same: bool, replace: bool, keys: Sequence[str]) -> Decision:
    if same:
        return Decision("attach", message="is running already, and is left alone")
    if replace:
        return Decision(
            "start", stop_first=True, message="runs with another specification: it is stopped and started again"
        )
    return Decision(
        "none",
        problem=f"is running with another specification (different: {_listed(keys)}). "
        "Stop it first, use another job name, or set replace=true (train_replace=true) to stop it and start this one.",
    )


def _decide_finished(same: bool, rerun: bool, keys: Sequence[str]) -> Decision:
    if rerun:
        return Decision("start", message="had finished and is started again from the beginning")
    if same:
        return Decision("none", message="has finished already")
    return Decision(
        "none",
        problem=f"has finished with another specification (different: {_listed(keys)}). "
        "Use a new job name, or set rerun=true (train_rerun=true) to start it again from the beginning.",
    )


def _past(state: str) -> str:
    return {"failed": "failed on the last attempt", "lost": "lost on the last attempt"}.get(state, state)


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "an unreadable earlier specification"


def confirmed(state: str, world_size: int | None, expected: int | None, logs_here: bool, step: int | None) -> bool:
    """Whether this node proves that the run is what was asked for: its size, and a step where steps are logged."""
    if state not in ("running", "finished") or expected is None or world_size != expected:
        return False
    return not logs_here or (step or 0) >= 1


def waiting_for(
    state: str, world_size: int | None, expected: int | None, logs_here: bool, step: int | None, steps: int | None
) -> str:
    """What the job is waiting for on this node, in words; empty when it has ended."""
    if state == "starting":
        return "the supervisor to start the trainer"
    if state != "running":
        return ""
    if world_size is None:
        return f"the trainer to report its world size (expected {expected})"
    if world_size != expected:
        return f"a world size of {expected} (the trainer says {world_size})"
    if logs_here and not step:
        return "the first logged step"
    if logs_here:
        return f"the last step (now at {step} of {'?' if steps is None else steps})"
    return "the trainer to end"
