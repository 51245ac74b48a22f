#!/usr/bin/python
# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start or stop one node's part of a training job."""

from __future__ import annotations

DOCUMENTATION = r"""
module: swift_job
short_description: Start or stop one node's part of an ms-swift training job
version_added: 0.1.0
author:
  - The trainyard developers (@trainyard)
description:
  - Starts C(swift) or C(megatron) on this node as one rank of a job over several nodes, under a supervisor that lives
    on when Ansible, SSH and the controller are gone.
  - That a job runs is proven by a lock which the kernel ends with the supervisor, not by a remembered process id.
  - A job that runs already with the same specification is left alone.
  - In check mode the module returns the exact command line and environment, and fails with all problems of this node
    at once.
notes:
  - All nodes of a job must be given the same O(name), O(nnodes), O(master_addr) and O(master_port), and a O(node_rank)
    each. The role C(trainyard.swift.train) takes them from the inventory.
  - The runtime V(docker) needs the Python library C(docker) on the node. It needs C(python3) in the container.
  - Needs root, or a user who may use Docker and owns O(jobs_dir).
extends_documentation_fragment:
  - trainyard.swift._attributes
  - trainyard.swift._jobs_dir
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - Name of the job, which is the name of its folder as well.
      - Up to 63 lower-case letters, digits and hyphens, with a letter or a digit first.
    type: str
    required: true
  state:
    description:
      - V(started) brings the job to life.
      - V(stopped) ends every process of the job on this node, in whatever state it is, and proves that none is left.
        Only O(name), O(jobs_dir), O(stop_timeout) and O(digest) count then.
    type: str
    choices: [started, stopped]
    default: started
  framework:
    description: The program to run.
    type: str
    choices: [swift, megatron]
    default: swift
  command:
    description: Its subcommand. V(export) with the framework V(swift) runs on one node only.
    type: str
    choices: [pt, sft, rlhf, export]
    default: pt
  arguments:
    description:
      - Flags of the command without their dashes, and their values.
      - A list becomes one flag followed by its values. Booleans become C(true) and C(false). Null leaves the flag out.
      - Paths with C(*), C(?) or C([) are expanded where the job runs, and sorted.
    type: dict
    default: {}
  environment:
    description:
      - Further environment variables. They win over the derived ones, except for the facts about ranks.
      - Names that would set the layout of the job anew, such as C(WORLD_SIZE) or C(PET_NNODES), are refused.
    type: dict
    default: {}
  secrets:
    description:
      - Environment variables whose values are kept secret, such as C(WANDB_API_KEY).
      - They are written to a file that only its owner can read, and removed when the job has ended. They are neither
        in the digest nor in any output.
    type: dict
    default: {}
  nnodes:
    description: How many nodes the job has.
    type: int
    default: 1
  node_rank:
    description: Rank of this node, counted from 0.
    type: int
    default: 0
  nproc_per_node:
    description:
      - Training processes on this node. By default one for each GPU that C(CUDA_VISIBLE_DEVICES) in O(environment) names,
        in O(gpus), or visible, and at least one.
    type: int
  master_addr:
    description: Address of the node with rank 0, at which all others can reach it.
    type: str
    default: 127.0.0.1
  master_port:
    description: Port on the node with rank 0, which must be free.
    type: int
    default: 29500
  gpus:
    description: Indices of the GPUs to use. By default those that are visible. An empty list hides all of them.
    type: list
    elements: int
  socket_interface:
    description: Network interface for NCCL's and Gloo's own connections, such as C(bond0). By default they choose.
    type: str
  runtime:
    description: Where the training processes live, in a running container or on the host itself.
    type: str
    choices: [docker, host]
    default: docker
  container:
    description: Name of the running container. It is left as it is.
    type: str
    default: trainyard
  bin_dir:
    description:
      - Folder that holds C(swift) and C(megatron), such as C(/opt/venv/bin). By default the PATH is searched.
      - It comes first on the PATH of the trainer.
    type: path
  colocated:
    description: Whether another node of the same job is on this very machine.
    type: bool
    default: false
  replace:
    description: Whether to stop a job of this name that runs with another specification, and start this one.
    type: bool
    default: false
  rerun:
    description: Whether to start a job again that has finished.
    type: bool
    default: false
  resume_from:
    description:
      - Checkpoint to go on from, as a path where the job runs. It must be there on all nodes.
      - It is not a part of the specification. A job that is resumed is still the same job.
    type: path
  start_timeout:
    description: Seconds to wait for the supervisor's first sign of life.
    type: int
    default: 30
  stop_timeout:
    description: Seconds that training processes get to end by themselves after SIGTERM before they are killed.
    type: int
    default: 30
  digest:
    description:
      - With O(state=stopped), end the job only if it was started with the specification of this digest, as RV(digest) gives it.
      - Whoever takes back a start of his own does not end what somebody else has started under the same name meanwhile.
    type: str
seealso:
  - module: trainyard.swift.swift_job_info
"""

EXAMPLES = r"""
- name: Start training on two nodes
  trainyard.swift.swift_job:
    name: qwen3-pt
    command: pt
    arguments:
      model: /data/models/Qwen3-8B
      dataset: /data/train_data/pt_*.jsonl
      tuner_type: full
      output_dir: /data/train_output
    nnodes: 2
    node_rank: "{{ groups['swift_nodes'].index(inventory_hostname) }}"
    master_addr: 192.0.2.10
    environment:
      NCCL_DEBUG: INFO
    secrets:
      WANDB_API_KEY: "{{ vault_wandb_api_key }}"

- name: Stop it
  trainyard.swift.swift_job:
    name: qwen3-pt
    state: stopped
"""

RETURN = r"""
action:
  description:
    - What was done, or in check mode would be done.
    - V(start) starts an attempt, V(attach) leaves a running job alone, V(none) leaves a job alone that does not run,
      and V(stop) ends it.
  returned: success
  type: str
  sample: start
argv:
  description: The command line. Empty for a job that is stopped.
  returned: success
  type: list
  elements: str
  sample: [swift, pt, --model, /data/models/Qwen3-8B]
attempt:
  description: Number of the attempt, counted from 1. It is 0 for a job that was never started.
  returned: success
  type: int
  sample: 1
checkpoints:
  description: Checkpoints that the job's output folder holds on this node, the newest last.
  returned: success
  type: list
  elements: dict
  contains:
    complete:
      description: Whether training can go on from it, with the optimizer's state.
      type: bool
      returned: success
    path:
      description: Where it is.
      type: str
      returned: success
    step:
      description: The step it was written at.
      type: int
      returned: success
container_image:
  description: Digest of the layers of the container's image. Equal for equal content.
  returned: success
  type: str
differences:
  description: What differs from the specification of the last attempt.
  returned: success
  type: list
  elements: dict
  sample: [{"key": "arguments.max_length", "before": ["2048"], "after": ["4096"]}]
digest:
  description: SHA-256 of the specification.
  returned: success
  type: str
environment:
  description: Environment variables that the trainer gets in addition to those of its surroundings, without secrets.
  returned: success
  type: dict
files:
  description: What each pattern among the arguments stands for on this node.
  returned: success
  type: dict
  sample: {"/data/pt_*.jsonl": ["/data/pt_0.jsonl", "/data/pt_1.jsonl"]}
folder:
  description: The job's folder on this node.
  returned: success
  type: str
  sample: /var/lib/trainyard/jobs/qwen3-pt/rank-0
jobs_dir_id:
  description:
    - A name for the folder O(jobs_dir). It is equal on two nodes only if they share one and the same folder.
    - Null where that cannot be told.
  returned: when O(state=started)
  type: str
msg:
  description: What was done, in words.
  returned: always
  type: str
nproc_per_node:
  description: Training processes on this node.
  returned: success
  type: int
problems:
  description: All that is wrong, one sentence each.
  returned: failure
  type: list
  elements: str
secret_names:
  description: Names of the secrets.
  returned: success
  type: list
  elements: str
state:
  description: State of the job on this node. In check mode the present one.
  returned: success
  type: str
  sample: running
trainer_version:
  description: Version of ms-swift.
  returned: success
  type: str
  sample: 4.6.0
visible_gpus:
  description: Indices of the GPUs that the trainer could use.
  returned: success
  type: list
  elements: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainyard.swift.plugins.module_utils import _control
from ansible_collections.trainyard.swift.plugins.module_utils._errors import SwiftError
from ansible_collections.trainyard.swift.plugins.module_utils._job import JobSpec
from ansible_collections.trainyard.swift.plugins.module_utils._jobs_dir import denied
from ansible_collections.trainyard.swift.plugins.module_utils._runtime import DockerRuntime, HostRuntime, Runtime

_SPEC_OPTIONS = (
    "name",
    "framework",
    "command",
    "arguments",
    "environment",
    "nnodes",
    "node_rank",
    "nproc_per_node",
    "master_addr",
    "master_port",
    "gpus",
    "socket_interface",
    "runtime",
    "container",
    "bin_dir",
    "jobs_dir",
    "colocated",
)


def argument_spec() -> dict[str, Any]:
    """The module's options."""
    return {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
        "framework": {"type": "str", "choices": ["swift", "megatron"], "default": "swift"},
        "command": {"type": "str", "choices": ["pt", "sft", "rlhf", "export"], "default": "pt"},
        "arguments": {"type": "dict", "default": {}},
        "environment": {"type": "dict", "default": {}},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
        "nnodes": {"type": "int", "default": 1},
        "node_rank": {"type": "int", "default": 0},
        "nproc_per_node": {"type": "int"},
        "master_addr": {"type": "str", "default": "127.0.0.1"},
        "master_port": {"type": "int", "default": 29500},
        "gpus": {"type": "list", "elements": "int"},
        "socket_interface": {"type": "str"},
        "runtime": {"type": "str", "choices": ["docker", "host"], "default": "docker"},
        "container": {"type": "str", "default": "trainyard"},
        "bin_dir": {"type": "path"},
        "jobs_dir": {"type": "path", "default": "/var/lib/trainyard/jobs"},
        "colocated": {"type": "bool", "default": False},
        "replace": {"type": "bool", "default": False},
        "rerun": {"type": "bool", "default": False},
        "resume_from": {"type": "path"},
        "start_timeout": {"type": "int", "default": 30},
        "stop_timeout": {"type": "int", "default": 30},
        "digest": {"type": "str"},
    }


def run(module: AnsibleModule) -> dict[str, Any]:
    """Do what the options say."""
    options: dict[str, Any] = module.params
    if options["state"] == "stopped":
        return _control.stop(
            options["jobs_dir"], options["name"], options["stop_timeout"], module.check_mode, options["digest"]
        )

    def make_runtime(spec: JobSpec) -> Runtime:
        if spec.runtime == "docker":
            return DockerRuntime(spec.container)
        return HostRuntime(module.run_command, module.warn)

    secrets: dict[str, Any] = options["secrets"]
    request = _control.StartRequest(
        spec=JobSpec(**{key: options[key] for key in _SPEC_OPTIONS}, secret_names=tuple(sorted(secrets))),
        secrets=secrets,
        replace=options["replace"],
        rerun=options["rerun"],
        resume_from=options["resume_from"],
        start_timeout=options["start_timeout"],
        stop_timeout=options["stop_timeout"],
        check_mode=module.check_mode,
    )
    return _control.start(request, make_runtime)


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = run(module)
    except SwiftError as exc:
        module.fail_json(msg=str(exc), problems=exc.problems, **exc.details)
    except PermissionError as exc:
        problem = denied(exc)
        module.fail_json(msg=problem, problems=[problem])
    for warning in result.pop("warnings"):
        module.warn(warning)
    diff = result.pop("diff", None)
    if module._diff and diff is not None:
        result["diff"] = diff
    module.exit_json(**result)


if __name__ == "__main__":
    main()
