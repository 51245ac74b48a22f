# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib

import pytest

NAMES = ("before", "ended", "engine", "failure", "foreign", "identity", "images", "plan", "proof", "spec", "strangers")


@pytest.mark.parametrize("name", [*(f"container_{name}" for name in NAMES), "package_failure"])
def test_each_file_holds_the_filter_of_its_name(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.trainyard.swift.plugins.filter.{name}")
    filters = module.FilterModule().filters()
    assert list(filters) == [name]
    assert callable(filters[name])
