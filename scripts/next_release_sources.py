#!/usr/bin/env python3
"""Writes this machine's apt sources with the suite exchanged for the next release's.

Debian 12's own Docker is too old (see docs/local-cluster.md), the next release's works there. Taking the machine's own sources
keeps its mirrors, keyrings and options. Standard library only: it also runs before anything is installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ONE_LINE = re.compile(r"^deb\s+(?P<options>\[[^]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")


def one_line_entries(text: str, codename: str, following: str) -> list[str]:
    """Stanzas for the entries of a sources.list file that name the release itself."""
    stanzas = []
    for line in text.splitlines():
        found = ONE_LINE.match(line.split("#")[0].strip())
        if not found or found["suite"] != codename:
            continue
        stanza = [f"Types: deb\nURIs: {found['uri']}\nSuites: {following}\nComponents: {found['components']}"]
        for option in (found["options"] or "").strip(" []").split():
            name, _, value = option.partition("=")
            names = {"signed-by": "Signed-By", "trusted": "Trusted", "arch": "Architectures"}
            if name.lower() in names:
                stanza.append(f"{names[name.lower()]}: {value.replace(',', ' ')}")
        stanzas.append("\n".join(stanza))
    return stanzas


def deb822_entries(text: str, codename: str, following: str) -> list[str]:
    """The stanzas of a .sources file that name the release itself, with the suite exchanged."""
    stanzas = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in stanza.splitlines() if line.strip() and not line.startswith("#")]
        suites = next((line for line in lines if line.lower().startswith("suites:")), "")
        disabled = any(re.match(r"(?i)enabled:\s*no", line) for line in lines)
        if codename in suites.split()[1:] and not disabled:
            stanzas.append("\n".join(f"Suites: {following}" if line == suites else line for line in lines))
    return stanzas


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(f"Usage: {sys.argv[0]} APT_FOLDER CODENAME NEXT_CODENAME")
    folder, codename, following = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    stanzas = []
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if path.is_file():
            entries = deb822_entries if path.suffix == ".sources" else one_line_entries
            stanzas += entries(path.read_text(encoding="utf-8"), codename, following)
    if not stanzas:
        sys.exit(f"No apt source in {folder} names {codename}, so none could be made for {following}.")
    print("\n\n".join(dict.fromkeys(stanzas)))


if __name__ == "__main__":
    main()
