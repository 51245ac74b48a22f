# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All jobs of all nodes: the status report, and the nodes' output side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.trainyard.swift.plugins.plugin_utils._lines import prefix_lines
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_list,
    a_mapping,
    a_rank_map,
    integer,
    list_or_empty,
    mapping_or_empty,
)
from ansible_collections.trainyard.swift.plugins.plugin_utils._summary import job_summary

_BAD = ("failed", "lost")


def status_report(results: Any, rank_map: Any, unreachable: Any, generated_at: str, only: str = "") -> dict[str, Any]:
    """Every job summed up over its nodes: JSON to keep, lines to read, and failures that decide the exit code.

    With C(only), the failures of that job alone count.
    """
    answers = a_mapping(results, "The results")
    ranks = a_rank_map(rank_map)
    missing = [str(problem) for problem in a_list(unreachable, "The list of nodes that did not answer")]
    jobs = [_summary_of(name, answers, ranks) for name in _job_names(answers)]
    judged = [job for job in jobs if only in ("", job["name"])]
    failures = [*missing, *(failure for job in judged for failure in _failures(job))]
    lines = [line for job in jobs for line in (job["headline"], *job["table"], "")]
    nodes = len(ranks["nodes"])
    told = lines or [f"There is no job on {nodes} {'node' if nodes == 1 else 'nodes'}.", ""]
    kept = [{key: value for key, value in job.items() if key not in ("table", "headline")} for job in jobs]
    return {
        "json": {"generated_at": generated_at, "nodes": nodes, "jobs": kept, "failures": failures},
        "lines": told[:-1],
    }


def job_outputs(results: Any, last: int) -> list[dict[str, Any]]:
    """The output of each job on each node, every line prefixed with node and rank."""
    answers = a_mapping(results, "The results")
    outputs: list[dict[str, Any]] = []
    for node, answer in answers.items():
        for job in _jobs(answer):
            if job.get("state") == "absent":
                continue
            rank = job.get("node_rank")
            lines = prefix_lines(list_or_empty(job.get("output_tail")), f"[{node} rank {rank}] ")
            outputs.append(
                {
                    "job": str(job.get("name")),
                    "node": str(node),
                    "file": f"{node}.rank{rank}.log",
                    "text": "".join(f"{line}\n" for line in lines),
                    "last": lines[-last:] if last > 0 else [],
                }
            )
    return outputs


def _jobs(answer: Any) -> list[Mapping[str, Any]]:
    return [mapping_or_empty(job) for job in list_or_empty(mapping_or_empty(answer).get("jobs"))]


def _job_names(answers: Mapping[str, Any]) -> list[str]:
    return sorted({str(job["name"]) for answer in answers.values() for job in _jobs(answer) if job.get("name")})


def _summary_of(name: str, answers: Mapping[str, Any], rank_map: Mapping[str, Any]) -> dict[str, Any]:
    own = {node: _only(answer, name) for node, answer in answers.items()}
    return job_summary(own, _nodes_of(own, rank_map))


def _only(answer: Any, name: str) -> dict[str, Any]:
    """This node's answer, with the one job."""
    given = dict(mapping_or_empty(answer))
    if "jobs" in given:
        given["jobs"] = [job for job in _jobs(given) if job.get("name") == name]
    return given


def _nodes_of(own: Mapping[str, Mapping[str, Any]], rank_map: Mapping[str, Any]) -> dict[str, Any]:
    """The nodes that this job is on: all of the inventory, unless it was meant for as few as have it."""
    having = [str(node) for node, answer in own.items() if _present(answer)]
    sizes = {integer(job.get("nnodes")) for answer in own.values() for job in _jobs(answer) if job.get("nnodes")}
    nodes: Sequence[Mapping[str, Any]] = rank_map["nodes"]
    if sizes == {len(having)} and len(having) < len(nodes):
        nodes = [node for node in nodes if str(node["name"]) in having]
    return {**rank_map, "nodes": list(nodes)}


def _present(answer: Mapping[str, Any]) -> bool:
    return any(job.get("state") != "absent" for job in _jobs(answer))


def _failures(job: Mapping[str, Any]) -> list[str]:
    silent = any(node["state"] == "unknown" for node in job["nodes"])
    if job["state"] not in _BAD and not silent:
        return []
    return [f"Job {job['name']}: {failure}" for failure in job["failures"] or [str(job["state"])]]
