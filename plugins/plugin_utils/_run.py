# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job as its user asked for it: merged, checked, and ready to be placed on nodes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainyard.swift.plugins.module_utils import _arguments, _command_line, _environment, _job
from ansible_collections.trainyard.swift.plugins.plugin_utils._reading import (
    a_mapping,
    a_rank_map,
    integer,
    kind,
    unset,
)

DEFAULT_PORT = 29500
_DEFAULTS = {"framework": "swift", "command": "pt", "runtime": "docker", "master_port": DEFAULT_PORT}
_SETTINGS = {"NPROC_PER_NODE": "nproc_per_node", "MASTER_ADDR": "master_addr", "MASTER_PORT": "master_port"}
_SECRET_NAME = re.compile(r"(?:_|\b)(?:TOKEN|API_KEY|SECRET|PASSWORD|ACCESS_KEY)\Z", re.IGNORECASE)


def swift_run(job_vars: Any, rank_map: Any) -> dict[str, Any]:
    """Merge a pasted command line with the job's variables, which win, and tell all problems."""
    return _Run(a_mapping(job_vars, "The job's variables"), a_rank_map(rank_map)).result()


class _Run:
    """One pass over the job's variables; problems are collected, never raised."""

    def __init__(self, job: Mapping[str, Any], rank_map: Mapping[str, Any]) -> None:
        self.job = job
        self.rank_map = rank_map
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def result(self) -> dict[str, Any]:
        parsed = self._command_line()
        environment = self._environment(parsed.environment if parsed else {})
        settings = self._settings(environment)
        framework = self._setting("framework", parsed.framework if parsed else None)
        command = self._setting("command", parsed.command if parsed else None)
        arguments = self._arguments(parsed.arguments if parsed else {})
        run = {
            "name": "" if unset(self.job.get("job")) else str(self.job.get("job")),
            "framework": framework,
            "command": command,
            "arguments": arguments,
            "environment": environment,
            "secret_names": self._secret_names(environment),
            "runtime": self._setting("runtime", None),
            "nproc_per_node": self._count(settings.get("nproc_per_node")),
            "master_addr": self._master_addr(settings.get("master_addr")),
            "master_port": self._port(settings.get("master_port")),
        }
        self._check(run)
        return {**run, "problems": list(dict.fromkeys(self.problems)), "warnings": list(dict.fromkeys(self.warnings))}

    def _command_line(self) -> _command_line.ParsedCommand | None:
        text = self.job.get("command_line")
        if unset(text):
            return None
        if not isinstance(text, str):
            self.problems.append(f"train_command_line is {kind(text)}. Give the command line as text.")
            return None
        try:
            return _command_line.parse(text)
        except _command_line.CommandLineError as exc:
            self.problems.extend(f"train_command_line: {problem}" for problem in exc.problems)
            return None

    def _setting(self, key: str, pasted: str | None) -> str:
        """A variable that differs from its default counts more than the command line."""
        given = self.job.get(key)
        if unset(given) or (given == _DEFAULTS[key] and pasted is not None):
            return str(pasted or _DEFAULTS[key])
        if pasted is not None and str(given) != pasted:
            self.warnings.append(f"train_{key} is {given!r} and counts; train_command_line says {pasted!r}.")
        return str(given)

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self.job.get(key)
        if value is None or value == "":
            return {}
        if not isinstance(value, Mapping):
            self.problems.append(f"train_{key} is {kind(value)}. Give a mapping, one name and its value on each line.")
            return {}
        return {name if isinstance(name, str) else str(name): value[name] for name in value}

    def _arguments(self, pasted: Mapping[str, Any]) -> dict[str, Any]:
        merged = {_flag_name(name): value for name, value in pasted.items()}
        for key in ("arguments", "arguments_extra"):
            given = self._mapping(key)
            self.problems.extend(f"train_{key}: {problem}" for problem in _arguments.problems(given))
            merged.update({_flag_name(name): value for name, value in given.items()})
        self.warnings.extend(
            f"The argument {name!r} looks like a secret and will be seen in process lists. "
            "If it is one, give it as an environment variable in train_secrets."
            for name, value in merged.items()
            if _SECRET_NAME.search(name) and value is not None
        )
        return {name: _plain(value) for name, value in merged.items() if value is not None}

    def _environment(self, pasted: Mapping[str, str]) -> dict[str, str]:
        own = self._mapping("environment")
        given = {**pasted, **own}
        usable: dict[str, Any] = {}
        for name, value in given.items():
            problem = _environment.name_problem(name) or self._value_problem(name, value) or _environment.refusal(name)
            if problem:
                self.problems.append(f"train_{'environment' if name in own else 'command_line'}: {problem}")
            else:
                usable[name] = value
        environment = _job.environment_text(usable)
        self.warnings.extend(_environment.value_warnings(environment))
        self.warnings.extend(
            f"The environment variable {name!r} looks like a secret. "
            "Give it in train_secrets, where only its name is shown."
            for name in environment
            if _SECRET_NAME.search(name)
        )
        return environment

    def _value_problem(self, name: str, value: Any) -> str | None:
        if isinstance(value, bool) and name.startswith(("NCCL_", "GLOO_", "TORCH_")):
            return f"{name} is {str(value).lower()}, but this library reads numbers. Write {int(value)} instead."
        if value is None or isinstance(value, (str, bool, int, float)):
            return None
        return f"{name} is {kind(value)}. Give text or a number."

    def _settings(self, environment: dict[str, str]) -> dict[str, Any]:
        """Take what is a setting of the job out of the environment; a variable of its own counts more."""
        self._check_nnodes(environment.pop("NNODES", None))
        settings: dict[str, Any] = {}
        for name, key in _SETTINGS.items():
            pasted, given = environment.pop(name, None), self.job.get(key)
            explicit = not unset(given) and not (pasted is not None and given == _DEFAULTS.get(key))
            settings[key] = given if explicit else pasted
            if explicit and pasted is not None and str(given) != pasted:
                self.warnings.append(f"train_{key} is {given!r} and counts; the environment says {name}={pasted}.")
        return settings

    def _check_nnodes(self, given: str | None) -> None:
        nnodes = self.rank_map["nnodes"]
        if given is not None and given.strip() != str(nnodes):
            self.problems.append(
                f"NNODES is {given}, but the inventory has {nnodes} nodes in swift_nodes. "
                "Remove it, or correct the inventory."
            )

    def _count(self, given: Any) -> int | None:
        if unset(given):
            return None
        count = integer(given)
        if count is None or count < 1:
            self.problems.append(
                f"train_nproc_per_node is {given!r}. Give the number of processes on each node, an integer from 1 up, "
                "or leave it empty to use every GPU."
            )
            return None
        return count

    def _port(self, given: Any) -> int:
        if unset(given):
            return DEFAULT_PORT
        port = integer(given)
        problem = _job.port_problem(port if port is not None else given)
        if problem:
            self.problems.append(f"train_master_port: {problem}")
        return DEFAULT_PORT if problem or port is None else port

    def _master_addr(self, given: Any) -> str | None:
        if unset(given):
            return None
        address = str(given).strip()
        if not re.fullmatch(r"[A-Za-z0-9._:%-]+", address):
            self.problems.append(
                f"train_master_addr is {given!r}, which is neither an address nor a host name. Correct it."
            )
        elif is_loopback(address) and not self._one_machine():
            self.problems.append(
                f"train_master_addr is {address}, by which every node means itself: they would never meet. "
                f"Give an address of {self.rank_map.get('rank0')} (rank 0) that all nodes reach, or give neither it nor MASTER_ADDR."
            )
        return address

    def _one_machine(self) -> bool:
        nodes = self.rank_map["nodes"]
        return len(nodes) <= 1 or all(node["colocated"] for node in nodes)

    def _secret_names(self, environment: Mapping[str, str]) -> list[str]:
        """Names only: the values are never looked at here."""
        secrets = self.job.get("secrets")
        if unset(secrets):
            return []
        if not isinstance(secrets, (Mapping, list, tuple)):
            self.problems.append(
                "train_secrets is not a mapping. Give names of environment variables and their values."
            )
            return []
        names = sorted(str(name) for name in secrets)
        for name in names:
            found = (_environment.name_problem(name), _environment.secret_refusal(name))
            self.problems.extend(f"train_secrets: {problem}" for problem in found if problem)
            if name in environment:
                self.problems.append(
                    f"{name} is in train_secrets and in train_environment, where it would be seen. "
                    "Keep it in train_secrets only."
                )
        return names

    def _check(self, run: Mapping[str, Any]) -> None:
        found = [
            self._name_problem(run["name"]),
            _job.choice_problem("train_framework", run["framework"], _job.FRAMEWORKS),
            _job.choice_problem("train_command", run["command"], _job.COMMANDS),
            _job.choice_problem("train_runtime", run["runtime"], _job.RUNTIMES),
            _job.export_problem(run["framework"], run["command"], self.rank_map["nnodes"]),
        ]
        self.problems.extend(problem for problem in found if problem)

    def _name_problem(self, name: str) -> str | None:
        if not name:
            return (
                "train_job is not set. Give the job a name, such as 'qwen3-vl-8b', in the job's file or the inventory. "
                "A file is given with -e and an @: -e @job.yml."
            )
        problem = _job.name_problem(name)
        return f"train_job: {problem}" if problem else None


def is_loopback(address: str) -> bool:
    """Whether every node would take this address for itself."""
    if address.lower().rstrip(".") in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_unspecified


def _flag_name(name: str) -> str:
    """One spelling of a flag, without its dashes."""
    return _arguments.flag_name(name.lstrip("-"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
