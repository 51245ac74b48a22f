# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the trainer where only its processes matter: it trains nothing, and says so."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time


def child(options: argparse.Namespace, depth: int) -> int:
    """A process below the trainer, like torchrun's workers; each deeper one in a session of its own."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if depth > 1:
        note(options.report, {"pid": child(options, depth - 1)})
    if options.stop_children:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(options.child_seconds)
    os._exit(0)


def note(path: str, data: dict[str, object]) -> None:
    """One line in the report that the test reads."""
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(data) + "\n")


def flag(text: str) -> bool:
    """A boolean as the command line has it."""
    return text == "true"


def main() -> int:
    """Behave as the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--report", required=True)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--child_seconds", type=float, default=300)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--kill_self", type=int, default=0)
    parser.add_argument("--ignore_term", type=flag, default=False)
    parser.add_argument("--stop_children", type=flag, default=False)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--words", default="")
    parser.add_argument("--dataset", nargs="*")
    parser.add_argument("--resume_from_checkpoint")
    options, _rest = parser.parse_known_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _number in range(options.children):
        note(options.report, {"pid": child(options, options.depth)})
    facts = {
        "pid": os.getpid(),
        "argv": sys.argv[1:],
        "environment": dict(os.environ),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "session": os.getsid(0),
        "mask": sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }
    note(options.report, facts)
    print("this is no training: it only stands in for the trainer's processes", flush=True)
    size = int(os.environ["NNODES"]) * int(os.environ["NPROC_PER_NODE"])
    print(f"[INFO:swift] rank: 0, local_rank: 0, world_size: {size}, local_world_size: 1", file=sys.stderr, flush=True)
    for step in range(1, options.steps + 1):
        print(
            {"loss": "5.8", "global_step/max_steps": f"{step}/{options.steps}", "train_speed(s/it)": "0.1"}, flush=True
        )
    if options.words:
        print(options.words, file=sys.stderr, flush=True)
    time.sleep(options.seconds)
    if options.kill_self:
        os.kill(os.getpid(), options.kill_self)
    return options.exit


if __name__ == "__main__":
    sys.exit(main())
