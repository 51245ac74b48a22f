# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_processes as container_processes
from hypothesis import given
from hypothesis import strategies as st

ENTRYPOINT = ["sleep", "infinity"]
# docker top trainyard -eo pid,ppid,stat,args
QUIET = """PID                 PPID                STAT                COMMAND
2041                2017                Ss                  /sbin/docker-init -- sleep infinity
2056                2041                S                   sleep infinity
"""


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("", []),
        ("99 2017 Ssl swift pt --model x --hub_token secret\n", ["swift pt ... (pid 99)"]),
        ("99 0 Ss bash\n100 99 S+ python train.py --lr 1\n", ["bash (pid 99)"]),
        # Without its parent it is a child of the first process, like the entrypoint.
        ("99 2041 S sleep 600\n", ["sleep 600 (pid 99)"]),
        ("99 2041 S sleep infinity\n", ["sleep infinity (pid 99)"]),
        ("99 2041 Z [swift] <defunct>\n", []),
        ('99 2017 Ss python3 - {"devices": []}\n', []),
        ("99 2056 S helper of the entrypoint\n100 99 S and its own\n", []),
        ("99 2017 S sh -c TOKEN=secret swift\n", ["sh ... (pid 99)"]),
        ("99 2017 S a b c d e f\n", ["a b c d ... (pid 99)"]),
        ("broken line\n\n", []),
    ],
)
def test_strangers(more: str, found: list[str]) -> None:
    assert container_processes.strangers(QUIET + more, 2041, ENTRYPOINT) == found


def test_without_an_init_the_entrypoint_is_the_first_process() -> None:
    text = "PID PPID STAT COMMAND\n7 1 Ss sleep infinity\n8 1 Ss bash\n"
    assert container_processes.strangers(text, 7, ENTRYPOINT) == ["bash (pid 8)"]


def test_many_are_counted() -> None:
    text = "".join(f"{pid} 1 S worker\n" for pid in range(10, 18))
    found = container_processes.strangers(text, 1, ENTRYPOINT)
    assert len(found) == container_processes.SHOWN + 1
    assert found[-1] == "and 3 more"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_any_tree_ends(tree: list[tuple[int, int]]) -> None:
    text = "".join(f"{pid} {parent} S sleep infinity\n" for pid, parent in tree)
    assert len(container_processes.strangers(text, 1, ENTRYPOINT)) <= container_processes.SHOWN + 1


OURS = {"name": "trainyard", "ours": True, "pid": 2041, "entrypoint": ENTRYPOINT}


@pytest.mark.parametrize(
    ("others", "looked", "words"),
    [
        ([], {"rc": 0, "stdout": QUIET}, []),
        (["a", "b"], {"rc": 0, "stdout": QUIET}, ["container a", "container b"]),
        ([], {"rc": 0, "stdout": QUIET + "9 1 S bash"}, ["container trainyard with bash (pid 9)"]),
        ([], {"rc": 1, "stdout": ""}, ["container trainyard (docker top cannot look into it)"]),
    ],
)
def test_what_a_restart_would_end(others: list[str], looked: dict[str, object], words: list[str]) -> None:
    assert container_processes.ended({"others": others, "ours": [OURS]}, [looked]) == words
