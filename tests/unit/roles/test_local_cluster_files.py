# Copyright: (c) 2026, The trainyard developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of role local_cluster that read this machine's apt sources and gather what its images are made from."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "roles" / "local_cluster" / "files"
IMAGES = ROOT / "images"

BOOKWORM = """\
# The release, and its updates.
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
SECURITY = """\
Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
VENDOR = "deb [arch=amd64] https://vendor.example/linux/debian bookworm stable\n"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def apt_sources() -> Iterator[ModuleType]:
    yield load("apt_sources")
    del sys.modules["apt_sources"]


@pytest.fixture(scope="module")
def build_contexts(apt_sources: ModuleType) -> Iterator[ModuleType]:
    yield load("build_contexts")
    del sys.modules["build_contexts"]


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


def apt(folder: Path, **files: str) -> Path:
    """An /etc/apt: keyword `list` is sources.list, `x_sources` is sources.list.d/x.sources."""
    parts = folder / "sources.list.d"
    parts.mkdir()
    for name, text in files.items():
        path = folder / "sources.list" if name == "list" else parts / name.replace("_", ".")
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("# deb http://mirror.example/debian bookworm main", {}),
        ("deb-src http://mirror.example/debian bookworm main", {}),
        ("deb http://mirror.example/flat ./", {}),
        (
            "  deb http://mirror.example/debian\tbookworm  main contrib # near",
            {
                "Types": "deb",
                "URIs": "http://mirror.example/debian",
                "Suites": "bookworm",
                "Components": "main contrib",
            },
        ),
        (
            "deb [ arch=amd64,arm64 signed-by=/a.gpg Trusted=yes lang=en ] https://mirror.example/debian bookworm main",
            {
                "Types": "deb",
                "URIs": "https://mirror.example/debian",
                "Suites": "bookworm",
                "Components": "main",
                "Architectures": "amd64 arm64",
                "Signed-By": "/a.gpg",
                "Trusted": "yes",
            },
        ),
    ],
)
def test_an_entry_of_one_line(apt_sources: ModuleType, line: str, expected: dict[str, str]) -> None:
    assert apt_sources.one_line_entry(line) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("Types: deb-src\nURIs: http://a\nSuites: x\nComponents: main", {}),
        ("Enabled: no\nTypes: deb\nURIs: http://a\nSuites: x\nComponents: main", {}),
        ("types: deb\nenabled: False\nURIs: http://a\nSuites: x\nComponents: main", {}),
        ("Types: deb\n# a comment\nURIs: http://a", {"Types": "deb", "URIs": "http://a"}),
        ("Enabled: yes\nTypes: deb", {"Enabled": "yes", "Types": "deb"}),
        ("Types: deb\nSuites: a\n b\nURIs: http://a", {"Types": "deb", "Suites": "a\n b", "URIs": "http://a"}),
    ],
)
def test_a_block_of_a_sources_file(apt_sources: ModuleType, block: str, expected: dict[str, str]) -> None:
    assert apt_sources.deb822_entry(block) == expected


def test_only_suites_of_the_release_are_kept(apt_sources: ModuleType, tmp_path: Path) -> None:
    folder = apt(
        tmp_path,
        list="deb http://mirror.example/debian trixie main\ndeb http://mirror.example/debian bookworm-backports main\n",
        a_sources=f"{SECURITY}\n{BOOKWORM}",
        b_sources="Types: deb\nURIs: https://node.example\nSuites: nodistro\nComponents: main\n",
    )
    assert apt_sources.sources(folder, "bookworm") == (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm-backports\nComponents: main\n\n"
        f"{SECURITY}\n" + BOOKWORM.split("\n", 1)[1]
    )


def test_another_release_gets_the_main_suite_alone(apt_sources: ModuleType, tmp_path: Path) -> None:
    folder = apt(tmp_path, a_sources=f"{SECURITY}\n{BOOKWORM}")
    expected = BOOKWORM.split("\n", 1)[1].replace("bookworm bookworm-updates", "trixie")
    assert apt_sources.sources(folder, "bookworm", "trixie") == expected


def test_continued_lines_and_keys_in_the_file_stay_whole(apt_sources: ModuleType, tmp_path: Path) -> None:
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ==\n -----END PGP PUBLIC KEY BLOCK-----\n"
    text = f"Types: deb\nURIs: http://a/debian\nsuites: bookworm\n bookworm-updates\n trixie\nComponents: main\n{key}"
    folder = apt(tmp_path, a_sources=text)
    expected = f"Types: deb\nURIs: http://a/debian\nsuites: bookworm bookworm-updates\nComponents: main\n{key}"
    assert apt_sources.sources(folder, "bookworm") == expected


def test_entries_that_say_the_same_are_named_once(apt_sources: ModuleType, tmp_path: Path) -> None:
    line = "deb http://mirror.example/debian bookworm main\n"
    assert apt_sources.sources(apt(tmp_path, list=line * 2, a_list=line), "bookworm").count("URIs") == 1


def test_files_that_apt_does_not_read_are_not_read(apt_sources: ModuleType, tmp_path: Path) -> None:
    folder = apt(tmp_path, a_sources=BOOKWORM, b_save=VENDOR, c_bak=VENDOR)
    assert "vendor" not in apt_sources.sources(folder, "bookworm")


def test_no_source_of_the_release_is_an_error_that_names_it(apt_sources: ModuleType, tmp_path: Path) -> None:
    folder = apt(tmp_path, a_sources=BOOKWORM)
    with pytest.raises(SystemExit, match=rf"No apt source in {folder} names the release noble\."):
        apt_sources.sources(folder, "noble")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a_sources": f"{SECURITY}\n{BOOKWORM}"}, "http://mirror.example/debian"),
        ({"a_list": VENDOR, "b_sources": BOOKWORM}, "http://mirror.example/debian"),
        (
            {"a_list": "deb http://vendor.example/tools bookworm main\n", "b_sources": BOOKWORM},
            "http://mirror.example/debian",
        ),
        ({"list": "deb http://proxy.example/remote/ bookworm main\n"}, "http://proxy.example/remote/"),
        ({"list": "deb http://a.example/ubuntu/ bookworm main\n", "b_sources": BOOKWORM}, "http://a.example/ubuntu/"),
        ({"a_sources": SECURITY}, ""),
    ],
    ids=["security first", "vendor first", "vendor with main", "unusual path", "first of two", "none"],
)
def test_the_mirror_of_the_release(
    apt_sources: ModuleType, tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    assert apt_sources.mirror(apt(tmp_path, **files), "bookworm") == expected


def test_a_list_of_mirrors_is_replaced_by_its_first(apt_sources: ModuleType, tmp_path: Path) -> None:
    mirrors = tmp_path / "debian.mirrors"
    mirrors.write_text("# of this cloud\n\nhttps://cloud.example/debian\tpriority:1\nhttps://other.example/debian\n")
    folder = apt(tmp_path, list=f"deb mirror+file:{mirrors} bookworm main\n")
    assert apt_sources.mirror(folder, "bookworm") == "https://cloud.example/debian"
    assert "URIs: https://cloud.example/debian\n" in apt_sources.sources(folder, "bookworm")
    mirrors.unlink()
    assert apt_sources.mirror(folder, "bookworm") == f"mirror+file:{mirrors}"


@pytest.mark.parametrize(("other", "suites"), [([], "bookworm bookworm-updates"), (["trixie"], "trixie")])
def test_as_docker_sh_runs_it(tmp_path: Path, other: list[str], suites: str) -> None:
    folder = apt(tmp_path, a_sources=BOOKWORM)
    command = [sys.executable, "-B", str(FILES / "apt_sources.py"), str(folder), "bookworm", *other]
    assert f"\nSuites: {suites}\n" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.usefixtures("no_proxies")
def test_without_proxies_there_are_no_settings(build_contexts: ModuleType) -> None:
    assert build_contexts.proxy_settings('Acquire::Languages "en";\n', ["http://mirror.example/debian"]) == "\n"


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("spelt", [str.lower, str.upper])
def test_proxies_of_apt_and_of_the_environment(
    build_contexts: ModuleType, monkeypatch: pytest.MonkeyPatch, spelt: type[str]
) -> None:
    monkeypatch.setenv(spelt("http_proxy"), "http://proxy.example:3128")
    monkeypatch.setenv(spelt("no_proxy"), "inside.example")
    dump = 'Acquire::Languages "en";\nAcquire::https::CaInfo "/ca.pem";\n'
    uris = ["http://apt.inside.example/debian", "http://mirror.example/debian", "http://apt.inside.example/security"]
    assert build_contexts.proxy_settings(dump, uris).splitlines() == [
        'Acquire::https::CaInfo "/ca.pem";',
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::http::Proxy::apt.inside.example "DIRECT";',
    ]


@pytest.mark.usefixtures("no_proxies")
def test_contexts_are_written_afresh_and_summed_up(
    build_contexts: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "apt").mkdir()
    monkeypatch.setattr(build_contexts, "APT", apt(tmp_path / "apt", a_sources=BOOKWORM))
    monkeypatch.setattr(build_contexts, "apt_dump", lambda: "")
    certificate = tmp_path / "own.crt"
    certificate.write_text("certificate")
    monkeypatch.setattr(build_contexts, "TRUST", (str(certificate), str(tmp_path / "not-there")))
    key = tmp_path / "key.pub"
    key.write_text("ssh-ed25519 AAAA")
    base = build_contexts.base_context(IMAGES, "bookworm")
    node = build_contexts.node_context(IMAGES, key, "bookworm", "trixie")
    plain = build_contexts.node_context(IMAGES, key, "trixie", "")

    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "stale").write_text("")
    build_contexts.write(node, tmp_path / "build")

    assert base[f"machine{certificate}"] == b"certificate"
    assert sorted(plain) == ["Dockerfile", "authorized_keys", "host-keys.conf"]
    assert b"n=trixie" in node["machine/etc/apt/preferences.d/trainyard-docker"]
    written = {str(path.relative_to(tmp_path / "build")) for path in (tmp_path / "build").rglob("*") if path.is_file()}
    assert written == set(node)
    assert (tmp_path / "build" / "authorized_keys").stat().st_mode & 0o777 == 0o600
    digests = [
        build_contexts.digest(context, *below)
        for context, below in [(base, []), (node, []), (node, ["base"]), (plain, [])]
    ]
    assert len(set(digests)) == 4
