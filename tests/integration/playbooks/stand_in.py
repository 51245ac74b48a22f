# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for `swift pt` where playbooks are tested, not training. It behaves as its environment says."""

from __future__ import annotations

import os
import sys
import time

STEPS = 3


def setting(name: str, default: str) -> str:
    """What the test asks for."""
    return os.environ.get(f"STAND_IN_{name}", default)


def main() -> int:
    """Log like the trainer, wait, and end as told."""
    size = int(os.environ["NNODES"]) * int(os.environ["NPROC_PER_NODE"])
    layout = f"rank: {os.environ['NODE_RANK']}, local_rank: 0, world_size: {size}, local_world_size: 1"
    print(f"[INFO:swift] {layout}", file=sys.stderr, flush=True)
    print("arguments:", *sys.argv[1:], flush=True)
    time.sleep(float(setting("DELAY", "0")))
    if os.environ["NODE_RANK"] == "0":
        for step in range(1, STEPS + 1):
            figures = {"loss": "5.8", "global_step/max_steps": f"{step}/{STEPS}", "train_speed(s/it)": "0.1"}
            print(figures, flush=True)
    code = int(setting("EXIT", "0"))
    if code:
        print("Traceback (most recent call last):", file=sys.stderr)
        print("ValueError: remaining_argv: ['--unheard_of', '1']", file=sys.stderr, flush=True)
        return code
    time.sleep(float(setting("SECONDS", "0")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
