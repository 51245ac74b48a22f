# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real `swift pt` on two nodes: from start to the last step, and every way of running it again.

The tests of this file build on each other in their order: starting a trainer costs half a minute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from e2e.conftest import ROOT, Node, Run

pytestmark = pytest.mark.cluster

JOBS = "/var/lib/trainyard/jobs"
# A job that goes on until it is stopped; a checkpoint every few seconds.
LONG = {
    "train_job": "e2e-long",
    "train_arguments_extra": {"max_steps": 1000000, "save_steps": 20, "save_total_limit": 2},
}
SHORT: dict[str, Any] = {"train_job": "e2e-short", "train_arguments_extra": {"max_steps": 6, "save_steps": 3}}


def with_output(job: dict[str, Any], **more: Any) -> dict[str, Any]:
    extra = {**job["train_arguments_extra"], "output_dir": f"/data/train_output/{job['train_job']}"}
    return {**job, "train_arguments_extra": extra, **more}


def status(node: Node, job: str, rank: int) -> dict[str, Any]:
    return dict(json.loads(node.run(f"cat {JOBS}/{job}/rank-{rank}/status.json")))


def supervisor(node: Node, job: str, rank: int) -> int:
    """The supervisor's pid as the node itself sees it."""
    return int(node.run(f"pgrep -f '[s]upervisor.py.*{job}/rank-{rank}$' | head -1").split()[0])


def state_file(node: Node, job: str, rank: int) -> str:
    return f"{JOBS}/{job}/rank-{rank}/status.json"


def nothing_left(nodes: dict[str, Node]) -> bool:
    return all(not node.trainers() for node in nodes.values())


@pytest.fixture(scope="module", autouse=True)
def clean_nodes(nodes: dict[str, Node]) -> None:
    """Every run of these tests starts with nodes that know no job of theirs."""
    for node in nodes.values():
        node.run(
            "for p in $(pgrep -f '[s]upervisor.py.*/e2e-'); do kill $p; done; "
            "while pgrep -f '[s]upervisor.py.*/e2e-' >/dev/null; do sleep 0.2; done; "
            f"rm -rf {JOBS}/e2e-* /data/train_output/e2e-*"
        )


def test_trains_to_the_last_step_with_one_rank_on_each_node(play: Any, nodes: dict[str, Node]) -> None:
    run: Run = play("train.yml", **with_output(SHORT, train_wait=True))
    assert run.rc == 0
    text = run.messages()
    assert "finished" in text
    assert "6/6" in text
    for word in ("loss", "s/it", "tokens/s", "/data/train_output/e2e-short/v0-"):
        assert word in text
    for rank, node in enumerate(nodes.values()):
        output = node.run(f"cat {JOBS}/e2e-short/rank-{rank}/output.log")
        assert f"rank: {rank}, local_rank: 0, world_size: 2, local_world_size: 1" in output
        assert f"rank: {1 - rank}, local_rank" not in output
        assert status(node, "e2e-short", rank)["state"] == "finished"
    assert nothing_left(nodes)


def test_steady_state_sends_at_most_ten_tasks_to_a_host(play: Any, nodes: dict[str, Node]) -> None:
    """A new attempt on nodes that are provisioned already: the most that a steady `train.yml` has to do."""
    run: Run = play("train.yml", **with_output(SHORT, train_rerun=True))
    assert run.rc == 0
    reached = run.reached()
    assert set(reached) == set(nodes)
    assert max(reached.values()) <= 10, [
        event["event_data"].get("task") for event in run.events if event["event"] == "runner_on_ok"
    ]
    # No task goes to the hosts one by one: it has started on all of them before it ends on the first.
    for task, marks in run.order().items():
        hosts = [host for mark, host in marks if mark == "start"]
        assert set(hosts) == set(nodes), f"{task} reached {hosts} alone"
        assert [mark for mark, _host in marks[: len(nodes)]] == ["start"] * len(nodes), f"{task}: {marks}"
    assert status(nodes["node1"], "e2e-short", 0)["attempt"] == 2


def test_the_checkpoint_loads(nodes: dict[str, Node], eventually: Any) -> None:
    node = nodes["node1"]
    eventually(lambda: status(node, "e2e-short", 0)["state"] == "finished", 120, "the second attempt ends")
    checkpoint = node.run("ls -d /data/train_output/e2e-short/v*/checkpoint-6 | tail -1").strip()
    code = (
        "import sys; from transformers import AutoModelForCausalLM as M; "
        "m = M.from_pretrained(sys.argv[1]); print('parameters', sum(p.numel() for p in m.parameters()))"
    )
    assert "parameters" in node.run(f'docker exec trainyard python3 -c "{code}" {checkpoint}')


def test_a_finished_job_is_said_to_be_finished(play: Any) -> None:
    run: Run = play("train.yml", **with_output(SHORT))
    assert (run.rc, run.changed()) == (0, 0)
    assert "has finished" in run.messages()


def test_a_finished_job_with_another_specification_is_refused(play: Any, nodes: dict[str, Node]) -> None:
    job = with_output(SHORT)
    job["train_arguments_extra"]["learning_rate"] = 0.5
    run: Run = play("train.yml", **job)
    assert run.rc != 0
    text = run.messages()
    assert "has finished with another specification" in text
    assert "learning_rate" in text
    assert "train_rerun=true" in text
    assert status(nodes["node1"], "e2e-short", 0)["attempt"] == 2


def test_the_job_outlives_ansible_and_ssh(nodes: dict[str, Node], eventually: Any, tmp_path: Path) -> None:
    """ssh and ansible are killed as soon as the supervisors live; training must go on to logged steps."""
    extra = tmp_path / "job.json"
    extra.write_text(json.dumps(with_output(LONG)))
    ansible = subprocess.Popen(
        [str(Path(sys.executable).parent / "ansible-playbook"), "train.yml", "-i", "inventory", "-e", f"@{extra}"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(tmp_path / "cp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for rank, node in enumerate(nodes.values()):
            eventually(
                lambda rank=rank, node=node: node.run(f"cat {state_file(node, 'e2e-long', rank)} 2>/dev/null; true"),
                90,
                f"rank {rank} has a status",
            )
    finally:
        os.killpg(ansible.pid, signal.SIGKILL)
        ansible.wait()
    # The multiplexed ssh connections are processes of their own, named after the folder of their sockets.
    masters = subprocess.run(["pgrep", "-f", f"{tmp_path}/cp/"], capture_output=True, text=True, check=False).stdout
    for pid in masters.split():
        os.kill(int(pid), signal.SIGKILL)
    log = f"{JOBS}/e2e-long/rank-0/output.log"
    eventually(lambda: "'global_step/max_steps'" in nodes["node1"].run(f"cat {log}"), 120, "steps are logged")
    for rank, node in enumerate(nodes.values()):
        assert status(node, "e2e-long", rank)["state"] == "running"


def steps(node: Node) -> int:
    return int(node.run(f"grep -c global_step/max_steps {JOBS}/e2e-long/rank-0/output.log; true").strip())


def test_a_running_job_is_attached_to_and_undisturbed(play: Any, nodes: dict[str, Node]) -> None:
    before = [supervisor(node, "e2e-long", rank) for rank, node in enumerate(nodes.values())]
    done = steps(nodes["node1"])
    run: Run = play("train.yml", **with_output(LONG))
    assert (run.rc, run.changed()) == (0, 0)
    assert "runs already with this specification" in run.messages()
    assert [supervisor(node, "e2e-long", rank) for rank, node in enumerate(nodes.values())] == before
    assert steps(nodes["node1"]) > done


def test_a_running_job_with_another_specification_is_refused_with_the_difference(play: Any) -> None:
    job = with_output(LONG)
    job["train_arguments_extra"]["learning_rate"] = 0.5
    run: Run = play("train.yml", **job)
    assert run.rc != 0
    text = run.messages()
    assert "is running with another specification" in text
    assert "learning_rate" in text
    assert "train_replace=true" in text


def test_a_job_of_another_name_is_refused_while_one_runs(play: Any, nodes: dict[str, Node]) -> None:
    run: Run = play("train.yml", **with_output({**SHORT, "train_job": "e2e-other"}))
    assert run.rc != 0
    text = run.messages()
    assert "e2e-long" in text
    assert "node1" in text
    assert "node2" in text
    assert "e2e-other" not in nodes["node1"].run(f"ls {JOBS}")


def test_provisioning_leaves_a_running_job_alone(play: Any, nodes: dict[str, Node]) -> None:
    before = nodes["node1"].run(
        "docker inspect -f '{{.Id}} {{.State.StartedAt}}' trainyard; systemctl show -P ActiveEnterTimestamp docker"
    )
    run: Run = play("provision.yml", modelscope_container_shm_size="100m")
    assert (run.rc, run.changed()) == (0, 0)
    assert "e2e-long is running" in run.messages()
    after = nodes["node1"].run(
        "docker inspect -f '{{.Id}} {{.State.StartedAt}}' trainyard; systemctl show -P ActiveEnterTimestamp docker"
    )
    assert after == before


def test_status_and_logs_of_a_running_job(play: Any, tmp_path: Path) -> None:
    run: Run = play("status.yml", train_reports_directory=str(tmp_path))
    report = json.loads((tmp_path / "status.json").read_text())
    assert "e2e-long" in run.messages()
    assert any(job["name"] == "e2e-long" and job["state"] == "running" for job in report["jobs"])
    run = play("logs.yml", train_job="e2e-long", train_logs_directory=str(tmp_path / "logs"))
    assert run.rc == 0
    kept = sorted((tmp_path / "logs" / "e2e-long").iterdir())
    assert len(kept) == 2
    for rank, path in enumerate(kept):
        lines = path.read_text().splitlines()
        assert lines
        assert all(line.startswith(f"[node{rank + 1} rank {rank}]") for line in lines)


def test_replace_stops_and_starts(play: Any, nodes: dict[str, Node]) -> None:
    job = with_output(LONG, train_replace=True)
    job["train_arguments_extra"]["learning_rate"] = 0.002
    run: Run = play("train.yml", **job)
    assert run.rc == 0
    for rank, node in enumerate(nodes.values()):
        assert status(node, "e2e-long", rank)["attempt"] == 2
        assert len(node.run(f"pgrep -f '[s]upervisor.py.*e2e-long/rank-{rank}$'").split()) == 2  # supervisor and guard


def test_killed_training_processes_are_a_failure_with_the_signal(
    play: Any, nodes: dict[str, Node], eventually: Any
) -> None:
    node = nodes["node2"]
    node.run("pkill -9 -f '[s]wift/cli/pt.py|[t]orch.distributed.run|[/]swift pt'")
    eventually(lambda: status(node, "e2e-long", 1)["state"] == "failed", 15, "node2 says failed")
    run: Run = play("status.yml", train_job="e2e-long")
    assert run.rc != 0
    text = run.messages()
    assert "node2" in text
    assert "SIGKILL" in text or "signal 9" in text


def test_stop_ends_what_the_failed_node_left_waiting(play: Any, nodes: dict[str, Node]) -> None:
    run: Run = play("stop.yml", train_job="e2e-long")
    assert run.rc == 0
    assert nothing_left(nodes)
    assert not nodes["node1"].run("ss -Hltn 'sport = :29500'").strip()
    run = play("stop.yml", train_job="e2e-long")
    assert (run.rc, run.changed()) == (0, 0)


def test_a_failed_job_goes_on_from_its_last_checkpoint(play: Any, nodes: dict[str, Node]) -> None:
    """It was failed on node2 and stopped on node1: the next attempt resumes, and shows what differs."""
    run: Run = play("train.yml", **with_output(LONG, train_resume=True))
    assert run.rc == 0
    text = run.messages()
    assert "/checkpoint-" in text
    assert "learning_rate" in text  # the difference to the replaced attempt
    first = next(
        line
        for line in nodes["node1"].run(f"cat {JOBS}/e2e-long/rank-0/output.log").splitlines()
        if "global_step/max_steps" in line
    )
    assert int(first.split("global_step/max_steps': '")[1].split("/")[0]) > 20
    assert status(nodes["node1"], "e2e-long", 0)["attempt"] == 3


def test_a_killed_supervisor_is_lost_and_stop_leaves_no_process(
    play: Any, nodes: dict[str, Node], eventually: Any
) -> None:
    node = nodes["node1"]
    node.run(f"kill -9 {supervisor(node, 'e2e-long', 0)}")
    run: Run = play("status.yml", train_job="e2e-long")
    assert run.rc != 0
    assert "lost" in run.messages()
    run = play("stop.yml", train_job="e2e-long")
    assert run.rc == 0
    assert nothing_left(nodes)


def test_a_lost_job_starts_again_and_a_stopped_container_is_a_lost_job(
    play: Any, nodes: dict[str, Node], eventually: Any
) -> None:
    run: Run = play("train.yml", **with_output(LONG))
    assert run.rc == 0
    assert status(nodes["node1"], "e2e-long", 0)["attempt"] == 4
    nodes["node2"].run("docker stop -t 1 trainyard")
    eventually(lambda: not nodes["node2"].trainers(), 15, "the container's processes are gone")
    run = play("status.yml", train_job="e2e-long")
    assert run.rc != 0
    text = run.messages()
    assert "node2" in text
    assert "lost" in text
    assert "container" in text
    run = play("stop.yml", train_job="")
    assert run.rc == 0
    assert nothing_left(nodes)


def test_a_stopped_job_starts_again(play: Any, nodes: dict[str, Node]) -> None:
    """Also brings the stopped container back."""
    run: Run = play("train.yml", **with_output({**LONG, "train_job": "e2e-again"}))
    assert run.rc == 0
    run = play("stop.yml", train_job="e2e-again")
    assert run.rc == 0
    assert status(nodes["node1"], "e2e-again", 0)["state"] == "stopped"
    time.sleep(1)
    run = play("train.yml", **with_output({**LONG, "train_job": "e2e-again"}))
    assert run.rc == 0
    assert status(nodes["node1"], "e2e-again", 0)["attempt"] == 2
    assert play("stop.yml", train_job="e2e-again").rc == 0
    assert nothing_left(nodes)
