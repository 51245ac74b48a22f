# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles as data: defaults and argument_specs say the same, names carry the role's prefix, each role has its README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


def load(role: str, path: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "roles" / role / path).read_text()) or {})


def options(role: str) -> dict[str, dict[str, Any]]:
    specs = load(role, "meta/argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in (spec.get("options") or {}).items()}


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_argument_specs_name_the_same_variables(role: str) -> None:
    with_default = {name for name, option in options(role).items() if "default" in option}
    assert with_default == set(load(role, "defaults/main.yml"))


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_argument_specs_give_the_same_values(role: str) -> None:
    defaults = load(role, "defaults/main.yml")
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    differing = {name: (defaults[name], value) for name, value in documented.items() if defaults.get(name) != value}
    assert differing == {}


@pytest.mark.parametrize("role", ROLES)
def test_variables_carry_the_prefix_of_their_role(role: str) -> None:
    names = [*load(role, "defaults/main.yml"), *options(role)]
    assert [name for name in names if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_is_documented(role: str) -> None:
    for name, spec in load(role, "meta/argument_specs.yml")["argument_specs"].items():
        assert spec["short_description"], name
        assert spec["description"], name
        assert [option for option, told in (spec.get("options") or {}).items() if not told.get("description")] == []


@pytest.mark.parametrize("role", ROLES)
def test_main_is_a_table_of_contents(role: str) -> None:
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "main.yml").read_text())
    words = {key for task in tasks for key in task if "." in key}
    allowed = {f"ansible.builtin.{verb}_{noun}" for verb in ("import", "include") for noun in ("tasks", "role")}
    assert words <= allowed


@pytest.mark.parametrize("role", ROLES)
def test_readme_shows_how_to_use_the_role(role: str) -> None:
    text = (ROOT / "roles" / role / "README.md").read_text()
    assert f"trainyard.swift.{role}" in text


@pytest.mark.parametrize("role", ROLES)
def test_no_variable_of_a_role_is_used_without_being_declared(role: str) -> None:
    """A misspelt variable of the role's own prefix would silently be undefined."""
    known = set(options(role)) | set(load(role, "defaults/main.yml"))
    used: set[str] = set()
    made: set[str] = set()
    for path in (ROOT / "roles" / role).rglob("*"):
        if path.suffix in (".yml", ".j2") and path.parent.name in ("tasks", "templates", "handlers"):
            text = re.sub(r"#.*|^\s*tags: .*$", "", path.read_text(), flags=re.MULTILINE)
            # Words in quotes are text, not variables.
            text = re.sub(r"'[^']*'", "''", text)
            used |= set(re.findall(rf"(?<![\w.]){role}_\w+", text))
            made |= set(re.findall(rf"^\s*({role}_\w+):", text, re.MULTILINE))
    assert used - known - made == set()
