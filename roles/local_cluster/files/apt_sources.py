"""Prints this machine's apt sources as deb822 stanzas, those of its own release only.

With a third argument the suites are exchanged for that release's: Debian 12's own Docker is too old for the local cluster, the
next release's works there. Taking the machine's own sources keeps its mirrors, keyrings and options. Standard library only: it
also runs before anything is installed.

    python3 apt_sources.py /etc/apt bookworm [trixie]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")
OPTIONS = {"signed-by": "Signed-By", "trusted": "Trusted", "arch": "Architectures"}
MIRROR_LIST = "mirror+file:"

# A stanza: names of fields to their text, continued lines included.
Stanza = dict[str, str]


def one_line_entry(line: str) -> Stanza:
    """An entry of a sources.list file as a stanza; an empty one for comments and deb-src."""
    found = ONE_LINE.match(line.split("#")[0].strip())
    if not found:
        return {}
    stanza = {"Types": "deb", "URIs": found["uri"], "Suites": found["suite"], "Components": found["components"]}
    for option in (found["options"] or "").split():
        name, _sign, value = option.partition("=")
        if name.lower() in OPTIONS:
            stanza[OPTIONS[name.lower()]] = value.replace(",", " ")
    return stanza


def deb822_entry(block: str) -> Stanza:
    """A block of a .sources file; an empty one where it is switched off or has sources only."""
    stanza: Stanza = {}
    name = ""
    for line in block.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0].isspace() and name:
            stanza[name] += f"\n{line}"
        else:
            name, _colon, value = line.partition(":")
            stanza[name] = value.strip()
    switched_off = field(stanza, "Enabled").lower() in ("no", "false")
    return stanza if "deb" in field(stanza, "Types").split() and not switched_off else {}


def key_of(stanza: Stanza, name: str) -> str:
    """The name of a field as this stanza spells it: apt does not mind the case."""
    return next((key for key in stanza if key.lower() == name.lower()), name)


def field(stanza: Stanza, name: str) -> str:
    return stanza.get(key_of(stanza, name), "")


def resolved(uri: str) -> str:
    """The first mirror of a list that is a file of this machine, as cloud images have it; any other URI as it is."""
    if not uri.startswith(MIRROR_LIST):
        return uri
    path = Path("/" + uri[len(MIRROR_LIST) :].lstrip("/"))
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((line.split()[0] for line in lines if line.strip() and not line.startswith("#")), uri)


def entries_of(path: Path) -> Iterator[Stanza]:
    """All enabled entries of one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sources":
        stanzas = [deb822_entry(block) for block in re.split(r"\n[ \t]*\n", text)]
    else:
        stanzas = [one_line_entry(line) for line in text.splitlines()]
    for stanza in stanzas:
        if stanza:
            yield {**stanza, key_of(stanza, "URIs"): " ".join(map(resolved, field(stanza, "URIs").split()))}


def entries(folder: Path) -> list[Stanza]:
    """What apt reads: sources.list, and of sources.list.d only the files with these two endings."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    read = [path for path in files if path.is_file() and path.suffix in (".list", ".sources")]
    return [stanza for path in read for stanza in entries_of(path)]


def for_release(stanza: Stanza, codename: str, other: str | None = None) -> str:
    """The stanza limited to the suites of one release, or, for another release, to its main suite; empty when it has none."""
    suites = field(stanza, "Suites").split()
    own = [suite for suite in suites if suite == codename or (not other and suite.startswith(f"{codename}-"))]
    if not own:
        return ""
    limited = {**stanza, key_of(stanza, "Suites"): other or " ".join(own)}
    return "\n".join(f"{name}: {value}".replace(": \n", ":\n") for name, value in limited.items())


def sources(folder: Path, codename: str, other: str | None = None) -> str:
    """The text of a .sources file."""
    found = dict.fromkeys(for_release(stanza, codename, other) for stanza in entries(folder))
    found.pop("", None)
    if not found:
        sys.exit(f"No apt source in {folder} names the release {codename}.")
    return "\n\n".join(found) + "\n"


def mirror(folder: Path, codename: str) -> str:
    """Where the release itself comes from: neither its security archive nor another vendor's packages for it."""

    def doubts(stanza: Stanza) -> tuple[bool, bool]:
        usual_path = field(stanza, "URIs").rstrip("/").endswith(("debian", "ubuntu"))
        return "main" not in field(stanza, "Components").split(), not usual_path

    own = [stanza for stanza in entries(folder) if codename in field(stanza, "Suites").split()]
    return field(min(own, key=doubts), "URIs").split()[0] if own else ""


if __name__ == "__main__":
    sys.stdout.write(sources(Path(sys.argv[1]), *sys.argv[2:4]))
