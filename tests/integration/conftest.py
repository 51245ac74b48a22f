# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainyard.swift.plugins.module_utils import _runtime, _supervisor

sys.path.insert(0, os.path.dirname(__file__))

from harness import COVERAGE, Node


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under coverage the supervisor is run from its own path, so that its lines count; in a container it has none."""
    if request.node.get_closest_marker("docker") or not any(name in os.environ for name in COVERAGE):
        return
    real = _runtime.source

    def source(name: str) -> str:
        if name != "_supervisor":
            return real(name)
        return f"import runpy\nrunpy.run_path({_supervisor.__file__!r}, run_name='__main__')\n"

    monkeypatch.setattr(_runtime, "source", source)
    monkeypatch.setattr(_runtime, "HOST_ENVIRONMENT", (*_runtime.HOST_ENVIRONMENT, *COVERAGE))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Docker's library leaves sockets to the garbage collector, which may find them during any later test."""
    if item.path.is_relative_to(os.path.dirname(__file__)):
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """One node; whatever still runs at the end of the test is ended."""
    made = Node(tmp_path)
    yield made
    for folder in made.jobs_dir.glob("*") if made.jobs_dir.exists() else ():
        if folder.is_dir():
            made.stop(folder.name, stop_timeout=1)
            assert made.rank(folder.name).processes() == []
