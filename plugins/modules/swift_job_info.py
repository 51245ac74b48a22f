#!/usr/bin/python
# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell how the training jobs of a node are doing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: swift_job_info
short_description: Tell how the training jobs of a node are doing
version_added: 0.1.0
author:
  - The trainyard developers (@trainyard)
description:
  - Tells state, progress and last words of the jobs that were started with M(trainyard.swift.swift_job) on this node.
  - The state is proven at the moment of asking. Nothing is asked of the GPUs or of Docker.
  - Can wait until a job is confirmed or has ended on all hosts of the play. While it waits it shows a line whenever
    something has changed.
notes:
  - Waiting is done on the controller, which looks at all hosts every few seconds.
  - A wait ends as soon as the job has failed, was stopped or was lost on any host of the play, or a host cannot be
    reached. This does not fail the task, so that all hosts can still be reported on. See RV(satisfied) and
    RV(wait_reason).
extends_documentation_fragment:
  - trainyard.swift._attributes
  - trainyard.swift._jobs_dir
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  name:
    description:
      - Name of one job. By default all jobs of the node are told.
      - Needed to wait.
    type: str
  lines:
    description:
      - How many of the last lines of output to return. Of a job that failed or was lost at least 20 are returned.
    type: int
    default: 0
  wait_for:
    description:
      - V(confirmed) waits until the trainer has reported the right world size on every host, and has logged a step on
        the host that logs.
      - V(ended) waits until the job has ended on every host, which is satisfied if it has finished on all.
    type: str
    choices: [none, confirmed, ended]
    default: none
  wait_timeout:
    description: Seconds to wait.
    type: int
    default: 1800
seealso:
  - module: trainyard.swift.swift_job
"""

EXAMPLES = r"""
- name: Wait until training has really begun
  trainyard.swift.swift_job_info:
    name: qwen3-pt
    wait_for: confirmed
    wait_timeout: 3600
  register: confirmation
  failed_when: not confirmation.satisfied

- name: Look at all jobs with their last ten lines
  trainyard.swift.swift_job_info:
    lines: 10
"""

RETURN = r"""
elapsed:
  description: Seconds that were waited.
  returned: when O(wait_for) is not V(none)
  type: float
jobs:
  description:
    - The jobs, by name. A job asked for by name that is not there is told with the state V(absent).
    - Where the node had another rank of a job before, the attempt that was started last is told.
  returned: success
  type: list
  elements: dict
  contains:
    argv:
      description: The command line.
      type: list
      elements: str
      returned: success
    attempt:
      description: Number of the attempt, counted from 1.
      type: int
      returned: success
    command:
      description: The subcommand, such as V(pt).
      type: str
      returned: success
    confirmed:
      description:
        - Whether the trainer has reported the right world size and, where steps are logged, a step. An export has no steps.
      type: bool
      returned: success
    digest:
      description: SHA-256 of the specification.
      type: str
      returned: success
    ended_at:
      description: When it ended, in UTC with offset.
      type: str
      returned: success
    error:
      description: The trainer's own words about what went wrong.
      type: str
      returned: success
    expected_world_size:
      description: Number of processes on all nodes that the specification gives. C(swift export) is always one process.
      type: int
      returned: success
    framework:
      description: The program, V(swift) or V(megatron).
      type: str
      returned: success
    logs_here:
      description: Whether this is the node whose output has the steps. No node has for an export.
      type: bool
      returned: success
    name:
      description: Name of the job.
      type: str
      returned: success
    nnodes:
      description: How many nodes the job has.
      type: int
      returned: success
    node_rank:
      description: Rank of this node.
      type: int
      returned: success
    output_tail:
      description: The last lines of output.
      type: list
      elements: str
      returned: success
    path:
      description: The job's folder on this node.
      type: str
      returned: success
    processes:
      description: Living processes of the job on this node, the supervisor included.
      type: int
      returned: success
    progress:
      description: What the trainer's output says, such as C(step), C(steps), C(loss), C(s_per_it) and C(checkpoint).
      type: dict
      returned: success
    reason:
      description: Why the job is in this state.
      type: str
      returned: success
    returncode:
      description: Exit code of the trainer.
      type: int
      returned: success
    signal:
      description: Signal that ended the trainer or one of its workers.
      type: int
      returned: success
    started_at:
      description: When the attempt was started, in UTC with offset.
      type: str
      returned: success
    state:
      description: One of V(absent), V(starting), V(running), V(finished), V(failed), V(stopped) and V(lost).
      type: str
      returned: success
    waiting_for:
      description: What the job is waiting for on this node, in words.
      type: str
      returned: success
    world_size:
      description: World size that the trainer reports.
      type: int
      returned: success
satisfied:
  description: Whether what was waited for came true on all hosts.
  returned: when O(wait_for) is not V(none)
  type: bool
wait_reason:
  description: Why the wait ended, naming hosts.
  returned: when O(wait_for) is not V(none)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainyard.swift.plugins.module_utils import _report
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import denied


def argument_spec() -> dict[str, Any]:
    """The module's options. Waiting is the business of the action plugin of the same name."""
    return {
        "name": {"type": "str"},
        "jobs_dir": {"type": "path", "default": "/var/lib/trainyard/jobs"},
        "lines": {"type": "int", "default": 0},
        "wait_for": {"type": "str", "choices": ["none", "confirmed", "ended"], "default": "none"},
        "wait_timeout": {"type": "int", "default": 1800},
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=argument_spec(),
        required_if=[("wait_for", "confirmed", ["name"]), ("wait_for", "ended", ["name"])],
        supports_check_mode=True,
    )
    try:
        jobs = _report.jobs(module.params["jobs_dir"], module.params["name"], module.params["lines"])
    except PermissionError as exc:
        module.fail_json(msg=denied(exc))
    module.exit_json(jobs=jobs)


if __name__ == "__main__":
    main()
