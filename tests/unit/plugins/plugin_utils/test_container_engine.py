# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.trainyard.swift.plugins.plugin_utils import _container_engine as container_engine
from hypothesis import given
from hypothesis import strategies as st

PATH = "/etc/docker/daemon.json"
OPTIONS: dict[str, Any] = {"daemon_config": {}, "daemon_config_path": PATH, "nvidia_toolkit": False}
# What roles/docker_engine/files/probe.py said on Debian 12 with the docker.io of Debian 13.
GOOD: dict[str, Any] = {
    "binaries": {"docker": "/usr/bin/docker", "dockerd": "/usr/sbin/dockerd", "nvidia-ctk": None, "podman": False},
    "info": {
        "ServerVersion": "26.1.5+dfsg1",
        "SecurityOptions": ["name=seccomp,profile=builtin"],
        "Runtimes": ["io.containerd.runc.v2", "runc"],
        "DockerRootDir": "/var/lib/docker",
    },
    "error": None,
    "service": {},
    "command_line": ["/usr/sbin/dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock"],
    "daemon_config": {"text": None},
    "drop_in": None,
    "python": {"executable": "/usr/bin/python3", "docker": "5.0.3", "requests": "2.28.1"},
    "packages": ["containerd", "docker.io", "runc"],
    "held": [],
    "installed": [],
    "pending": None,
    "containers": [],
    "nvidia": {"hook": None, "cdi": None},
}
NOTHING = {"binaries": {}, "info": None, "error": "not found", "python": {"executable": "/usr/bin/python3"}}
SILENT = {
    "info": None,
    "error": "Cannot connect to the Docker daemon",
    "service": {"ActiveState": "failed", "journal": ["oops"]},
}


def plan(probe: dict[str, Any], final: bool = False, **options: Any) -> dict[str, Any]:
    return container_engine.plan({**GOOD, **probe}, {**OPTIONS, **options}, final)


def written(text: str | None, **options: Any) -> dict[str, Any]:
    return plan({"daemon_config": {"text": text}}, **options)


def test_steady_state_has_nothing_to_do() -> None:
    decided = plan({})
    assert not any((decided["install"], decided["start"], decided["python"], decided["config"]["differs"]))
    assert not any((decided["drop_in"]["differs"], *decided["toolkit"].values(), decided["hold"]))
    assert (decided["apply"], decided["reasons"], decided["problems"]) == ("none", [], [])
    assert decided["validate"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("26.1.5+dfsg1", (26, 1, 5)), ("2.34.2", (2, 34, 2)), ("", ()), (None, ()), ("unknown", ()), ("7.0rc1", (7,))],
)
def test_versions(text: str | None, numbers: tuple[int, ...]) -> None:
    assert container_engine.version_of(text) == numbers


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ({}, {}, {}),
        ({"data-root": "/big"}, {"debug": True}, {"data-root": "/big", "debug": True}),
        (
            {"log-opts": {"max-size": "1m"}},
            {"log-opts": {"max-file": "3"}},
            {"log-opts": {"max-size": "1m", "max-file": "3"}},
        ),
        ({"registry-mirrors": ["a"]}, {"registry-mirrors": ["b", "a"]}, {"registry-mirrors": ["a", "b"]}),
        ({"debug": True, "mtu": 9000}, {"debug": None}, {"mtu": 9000}),
        ({"mtu": 1500}, {"mtu": 9000}, {"mtu": 9000}),
        ({"dns": "a"}, {"dns": ["b"]}, {"dns": ["b"]}),
        ({"runtimes": None}, {"runtimes": {"n": {"path": "p", "args": None}}}, {"runtimes": {"n": {"path": "p"}}}),
    ],
)
def test_merge(before: Any, wanted: Any, after: Any) -> None:
    assert container_engine.merge(before, wanted) == after


JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=2), JSON, max_size=4), st.dictionaries(st.text(max_size=2), JSON, max_size=4))
def test_merging_twice_changes_nothing_and_foreign_keys_stay(before: dict[str, Any], wanted: dict[str, Any]) -> None:
    once = container_engine.merge(before, wanted)
    assert container_engine.merge(once, wanted) == once
    assert {key: once[key] for key in set(before) - set(wanted)} == {
        key: before[key] for key in set(before) - set(wanted)
    }


@pytest.mark.parametrize(
    ("text", "wanted", "apply"),
    [
        (None, {"live-restore": True}, "reload"),
        (None, {"log-opts": {"max-size": "1m"}}, "restart"),
        (None, {"live-restore": True, "mtu": 9000}, "restart"),
        ('{"live-restore": true}', {"live-restore": True}, "none"),
        ('{"registry-mirrors": ["a"]}', {"registry-mirrors": ["b"]}, "reload"),
        ('{"mtu": 9000}', {"mtu": None}, "restart"),
    ],
)
def test_the_least_that_applies_a_change(text: str | None, wanted: dict[str, Any], apply: str) -> None:
    decided = written(text, daemon_config=wanted)
    assert decided["apply"] == apply
    assert decided["config"]["differs"] is (apply != "none")
    assert json.loads(decided["config"]["text"]) == container_engine.merge(json.loads(text or "{}"), wanted)


def test_a_daemon_that_does_not_run_needs_no_restart() -> None:
    decided = plan({**NOTHING}, daemon_config={"mtu": 9000})
    assert decided["apply"] == "none"
    assert decided["reasons"] == []
    assert decided["install"]
    assert decided["config"]["differs"]
    assert not decided["validate"]


@pytest.mark.parametrize("pending", ["restart", "reload"])
def test_an_unfinished_run_is_finished(pending: str) -> None:
    decided = plan({"pending": pending})
    assert decided["apply"] == pending
    assert decided["reasons"] == ["a change that an earlier run left unfinished"]


@pytest.mark.parametrize(
    ("text", "words"),
    [('{"a" 1}', "is not valid JSON (Expecting ':'"), ("[]", "holds a list, not a mapping"), ("  \n", "")],
)
def test_a_broken_daemon_json_is_refused(text: str, words: str) -> None:
    problems = written(text, daemon_config={"debug": True})["problems"]
    assert len(problems) == bool(words)
    assert not words or (words in problems[0] and "nothing was changed" in problems[0])


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"binaries": {"docker": "/snap/bin/docker"}}, "Docker comes from snap"),
        ({"info": {**GOOD["info"], "DockerRootDir": "/var/snap/docker/common/var-lib-docker"}}, "snap remove docker"),
        ({"binaries": {"docker": "/usr/bin/podman", "podman": True}}, "podman-docker"),
        ({"info": {**GOOD["info"], "SecurityOptions": ["name=rootless", "name=cgroupns"]}}, "runs rootless"),
        (
            SILENT,
            "does not answer: Cannot connect to the Docker daemon\n  Service docker: ActiveState=failed.\n  Last words",
        ),
        ({**SILENT, "error": None, "service": {}}, "no reason given\n  Service docker: unknown."),
        ({**SILENT, "service": {"ActiveState": "inactive"}}, "systemctl start docker"),
        (
            {"command_line": ["dockerd", "--config-file", "/opt/d.json"]},
            "docker_engine_daemon_config_path: /opt/d.json",
        ),
        ({"command_line": ["dockerd", "--config-file=/opt/d.json"]}, "dockerd reads /opt/d.json"),
        ({"python": {"docker": "5.0.3", "requests": "2.32.0"}}, "Not supported URL scheme"),
    ],
)
def test_docker_that_cannot_be_used(probe: dict[str, Any], words: str) -> None:
    problems = plan(probe)["problems"]
    assert len(problems) == 1, problems
    assert words in problems[0]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [({"hosts": ["tcp://0.0.0.0"]}, 1), ({"containerd": "x"}, 1), ({"debug": True}, 0)],
)
def test_options_that_the_service_sets_already(wanted: dict[str, Any], count: int) -> None:
    problems = plan({}, daemon_config=wanted)["problems"]
    assert len(problems) == count
    assert all("would refuse to start with both" in problem for problem in problems)


def test_flags_have_other_names_than_keys() -> None:
    line = ["dockerd", "--log-opt=a=b", "-g", "/x", "--registry-mirror", "m", "value"]
    assert set(container_engine.flags(line)) == {"log-opts", "data-root", "registry-mirrors"}


def test_ours_and_stopped_is_started() -> None:
    probe = {**SILENT, "installed": ["docker.io"], "service": {"ActiveState": "inactive"}}
    decided = plan(probe)
    assert decided["start"]
    assert decided["problems"] == []
    assert "does not answer" in plan(probe, final=True)["problems"][0]


def test_only_ours_is_held_and_only_while_it_is_there() -> None:
    decided = plan({"installed": ["docker.io", "apparmor", "runc"], "held": ["runc"]})
    assert decided["hold"] == ["docker.io"]


@pytest.mark.parametrize(
    ("binaries", "text", "install", "configure"),
    [
        ({}, None, True, True),
        ({"nvidia-ctk": "/usr/bin/nvidia-ctk"}, None, False, True),
        ({"nvidia-ctk": "/usr/bin/nvidia-ctk"}, '{"runtimes": {"nvidia": {"path": "x"}}}', False, False),
    ],
)
def test_toolkit(binaries: dict[str, Any], text: str | None, install: bool, configure: bool) -> None:
    probe = {"binaries": {**GOOD["binaries"], **binaries}, "daemon_config": {"text": text}}
    decided = plan(probe, nvidia_toolkit=True)
    assert decided["toolkit"] == {"install": install, "configure": configure}
    # dockerd looks for the toolkit only when it starts.
    assert decided["apply"] == "restart"
    assert "no runtime named nvidia" in plan(probe, final=True, nvidia_toolkit=True)["problems"][0]


def test_toolkit_that_docker_knows_is_left_alone() -> None:
    decided = plan({"info": {**GOOD["info"], "Runtimes": ["nvidia", "runc"]}}, nvidia_toolkit=True)
    assert not any(decided["toolkit"].values())
    assert decided["apply"] == "none"


HOOK = "/usr/bin/nvidia-container-runtime-hook"
PACKAGES = ["nvidia-container-toolkit"]


@pytest.mark.parametrize(
    ("nvidia", "installed", "apply"),
    [
        ({"hook": HOOK}, [], "none"),
        ({"hook": None, "cdi": "/etc/cdi/nvidia.yaml"}, ["docker.io"], "none"),
        # Ours, from a run that was cut short: what was meant to be done is done.
        ({"hook": HOOK}, PACKAGES, "restart"),
        ({}, [], "restart"),
    ],
)
def test_a_toolkit_of_somebody_else_is_no_reason_for_a_restart(
    nvidia: dict[str, Any], installed: list[str], apply: str
) -> None:
    decided = plan({"nvidia": nvidia, "installed": installed}, nvidia_toolkit=True, nvidia_packages=PACKAGES)
    assert decided["apply"] == apply
    assert decided["toolkit"]["configure"] is (apply == "restart")
    final = plan({"nvidia": nvidia, "installed": installed}, True, nvidia_toolkit=True, nvidia_packages=PACKAGES)
    assert len(final["problems"]) == (apply == "restart")


THEIRS = {"name": "db", "ours": False}
OURS = {"name": "trainyard", "ours": True, "pid": 7, "entrypoint": ["sleep", "infinity"]}


@pytest.mark.parametrize(
    ("wanted", "live_restore", "others"),
    [
        ({"mtu": 9000}, False, ["db"]),
        ({"mtu": 9000}, None, ["db"]),
        ({"mtu": 9000}, True, []),
        # live-restore that is only about to come does not protect from the restart that comes with it.
        ({"mtu": 9000, "live-restore": True}, False, ["db"]),
        ({"data-root": "/big"}, True, ["db"]),
        ({"debug": True}, False, []),
        ({}, False, []),
    ],
)
def test_containers_that_a_restart_would_end(
    wanted: dict[str, Any], live_restore: bool | None, others: list[str]
) -> None:
    probe = {"containers": [OURS, THEIRS], "info": {**GOOD["info"], "LiveRestoreEnabled": live_restore}}
    ended = plan(probe, daemon_config=wanted)["ended"]
    assert ended["others"] == others
    assert ended["ours"] == ([OURS] if others else [])


def test_a_password_on_the_command_line_is_not_repeated() -> None:
    line = ["dockerd", "--http-proxy=http://u:secret@p:1"]
    problems = plan({"command_line": line}, daemon_config={"http-proxy": "x"})["problems"]
    assert "'--http-proxy'" in problems[0]
    assert "secret" not in problems[0]


def test_proxies_go_into_daemon_json_from_23_on() -> None:
    decided = plan({}, http_proxy="http://p:1", no_proxy="10.0.0.0/8")
    assert json.loads(decided["config"]["text"]) == {"proxies": {"http-proxy": "http://p:1", "no-proxy": "10.0.0.0/8"}}
    assert decided["apply"] == "restart"
    assert not decided["drop_in"]["differs"]


def test_proxies_of_an_older_docker_go_into_a_drop_in() -> None:
    old = {"info": {**GOOD["info"], "ServerVersion": "20.10.24"}}
    decided = plan(old, https_proxy="http://u:p%40@p:1")
    assert 'Environment="HTTPS_PROXY=http://u:p%%40@p:1"' in decided["drop_in"]["text"]
    assert decided["drop_in"]["differs"]
    assert decided["reasons"] == ["proxy settings of the service"]
    again = plan({**old, "drop_in": decided["drop_in"]["text"]}, https_proxy="http://u:p%40@p:1")
    assert not again["drop_in"]["differs"]
    assert again["apply"] == "none"


def test_missing_libraries_are_installed_and_then_insisted_on() -> None:
    probe = {"python": {"executable": "/opt/venv/bin/python", "docker": None, "requests": "2.28.1"}}
    assert plan(probe)["python"]
    assert plan(probe)["problems"] == []
    assert "/opt/venv/bin/python, the Python that Ansible uses" in plan(probe, final=True)["problems"][0]
