# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at all nodes means for a job that is being waited for: go on, tell, or stop everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import a_mapping, mapping_or_empty

_ENDED_BADLY = ("failed", "lost")
_GOES_ON = ("starting", "running")
_AGAIN = (
    "Correct the cause and run the same command again for the next attempt "
    "(-e train_resume=true continues from the newest complete checkpoint)."
)


@dataclass(frozen=True)
class NodeView:
    """What one node says about the job."""

    name: str
    job: Mapping[str, Any]

    @property
    def state(self) -> str:
        """State of this node's part."""
        return str(self.job.get("state", "absent"))

    @property
    def label(self) -> str:
        """Node and rank, as in the logs."""
        return f"[{self.name} rank {self.job.get('node_rank', '?')}]"


def _views(results: Mapping[str, Any]) -> list[NodeView]:
    return [
        NodeView(str(name), mapping_or_empty(job))
        for name, result in results.items()
        for job in mapping_or_empty(result).get("jobs") or []
    ]


def first_failure(views: Sequence[NodeView]) -> NodeView | None:
    """The node that went wrong first: it has the cause, the others only miss it."""
    failed = [view for view in views if view.state in _ENDED_BADLY]
    if not failed:
        return None
    # A lost node has no time of its end. Of nodes that failed at one time, one with an error of its own comes first.
    return min(
        failed,
        key=lambda view: (
            str(view.job.get("ended_at") or "~"),
            not view.job.get("error"),
            int(view.job.get("node_rank") or 0),
        ),
    )


def _story(view: NodeView) -> list[str]:
    """The failing node's own words: its error and the end of its output."""
    lines = [str(line) for line in view.job.get("output_tail") or []]
    error = view.job.get("error")
    told = [f"{view.label} the trainer's own error: {error}"] if error else []
    if not lines:
        return told
    return [*told, f"{view.label} its last {len(lines)} lines:", *(f"{view.label} {line}" for line in lines)]


def _unseen(results: Mapping[str, Any]) -> list[str]:
    return [str(name) for name, result in results.items() if "jobs" not in mapping_or_empty(result)]


def _ended(
    views: Sequence[NodeView], summary: Mapping[str, Any], unseen: Sequence[str], stops: bool
) -> dict[str, Any] | None:
    """The verdict on a job that has ended badly, or was stopped by someone else."""
    failures = [str(failure) for failure in summary.get("failures") or []]
    culprit = first_failure(views)
    if culprit is not None or (summary.get("state") in _ENDED_BADLY and not unseen):
        story = _story(culprit) if culprit is not None else []
        return {"good": False, "stop": stops, "lines": [*failures, *story, _AGAIN]}
    stopped = [view.name for view in views if view.state in ("stopped", "absent")]
    if stopped:
        line = f"{', '.join(stopped)}: the job was stopped there while it was waited for. No node goes on alone."
        return {"good": False, "stop": stops, "lines": [*failures, line, _AGAIN]}
    return None


def _unconfirmed(views: Sequence[NodeView], patience: int) -> list[str]:
    return [_missing(view, patience) for view in views if not view.job.get("confirmed")]


def _missing(view: NodeView, patience: int) -> str:
    if view.state == "finished":
        return f"{view.name}: the trainer has ended without having been seen training with all processes of the job."
    waits = f", it waits for: {view.job['waiting_for']}" if view.job.get("waiting_for") else ""
    return f"{view.name}: not seen training after {patience} s{waits}."


def _late(views: Sequence[NodeView], until: str, started: bool, patience: int) -> dict[str, Any] | None:
    """The verdict on a job that goes on, but is not where it was waited for to be."""
    going = [view.name for view in views if view.state in _GOES_ON]
    if until == "ended" and going:
        line = f"{', '.join(going)}: the job still runs after {patience} s (train_wait_timeout). It was left running."
        return {"good": False, "stop": False, "lines": [line]}
    lines = _unconfirmed(views, patience) if until == "confirmed" else []
    if not lines:
        return None
    tails = [line for view in views if not view.job.get("confirmed") for line in _story(view)]
    end = (
        "Raise train_confirm_timeout if it only needs longer to load or to tokenise."
        if started
        else "It was running before this run and was left as it is."
    )
    return {"good": False, "stop": started, "lines": [*lines, *tails, end]}


def verdict(results: Any, summary: Any, until: str, started: bool, patience: int) -> dict[str, Any]:
    """Judge a look at all nodes.

    RESULTS are those of swift_job_info by node, SUMMARY is that of job_summary, UNTIL is what was waited for
    (none, confirmed, ended), STARTED says whether this run started the job.
    """
    answers, told = a_mapping(results, "The results"), a_mapping(summary, "The summary")
    views, unseen = _views(answers), _unseen(answers)
    ended = _ended(views, told, unseen, stops=until != "none")
    if ended is not None:
        return ended
    if unseen:
        stop = started and until == "confirmed"
        end = (
            "The job could not be confirmed."
            if stop
            else "The job was left as it is. Ask for it with playbook status when the node is back."
        )
        return {"good": False, "stop": stop, "lines": [f"{', '.join(unseen)}: did not answer.", end]}
    return _late(views, until, started, patience) or {"good": True, "stop": False, "lines": []}
