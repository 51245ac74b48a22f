# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs in a container besides what keeps it alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PROBE = 'python3 - {"'  # the role's own look into the container
SHOWN = 5


class Process(NamedTuple):
    """One line of `docker top NAME -eo pid,ppid,stat,args`."""

    pid: int
    parent: int
    state: str
    command: str


def parse(text: str) -> list[Process]:
    """The processes of a listing, without its heading and without what cannot be read."""
    rows = [line.split(None, 3) for line in text.splitlines()]
    return [
        Process(int(row[0]), int(row[1]), row[2], row[3])
        for row in rows
        if len(row) == 4 and row[0].isdigit() and row[1].isdigit()
    ]


def _keepers(processes: Sequence[Process], init: int, entrypoint: Sequence[str]) -> set[int]:
    """What keeps the container alive: its first process, the entrypoint below it, and what the entrypoint started."""
    asked = " ".join(entrypoint)
    below = [process.pid for process in processes if process.parent == init and process.command == asked]
    # Processes that lost their parent are children of the first one as well.
    keepers = {init, *below[:1]}
    found = set(below[:1])
    while found:
        found = {process.pid for process in processes if process.parent in found} - keepers
        keepers |= found
    return keepers


def _name(command: str) -> str:
    """The command up to its first option: enough to know it, too little to give a password away."""
    words = command.split()
    options = [position for position, word in enumerate(words) if position and word.startswith("-")]
    shown = words[: min([*options, 4])]
    return " ".join(shown) + (" ..." if len(words) > len(shown) else "")


def strangers(text: str, init: int, entrypoint: Sequence[str]) -> list[str]:
    """What was started in the container by somebody else, by name; children of such processes are left out."""
    processes = parse(text)
    keepers = _keepers(processes, init, entrypoint)
    others: Mapping[int, Process] = {
        process.pid: process
        for process in processes
        if process.pid not in keepers and not process.state.startswith("Z") and not process.command.startswith(PROBE)
    }
    roots = [process for process in others.values() if process.parent not in others]
    names = [f"{_name(process.command)} (pid {process.pid})" for process in sorted(roots)]
    return names[:SHOWN] + ([f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else [])


def ended(running: Mapping[str, Any], looked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The containers that a restart of Docker would harm: those of others, and ours with what was started by hand."""
    names = [f"container {name}" for name in running["others"]]
    for container, result in zip(running["ours"], looked):
        if result.get("rc") != 0:
            names.append(f"container {container['name']} (docker top cannot look into it)")
            continue
        found = strangers(str(result.get("stdout") or ""), int(container["pid"]), container["entrypoint"])
        names += [f"container {container['name']} with {', '.join(found)}"] if found else []
    return names
