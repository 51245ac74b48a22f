"""Prints this machine's apt sources as deb822 stanzas, those of its own release only.

With a third argument the suites are exchanged for that release's: Debian 12's own Docker is too old for the local cluster, the
next release's works there. Taking the machine's own sources keeps its mirrors, keyrings and options. Standard library only: it
also runs before anything is installed.

    python3 apt_sources.py /etc/apt bookworm [trixie]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ONE_LINE = re.compile(r"^deb\s+(?P<options>\[[^]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")
OPTIONS = {"signed-by": "Signed-By", "trusted": "Trusted", "arch": "Architectures"}


def one_line_entry(line: str) -> list[str]:
    """An entry of a sources.list file as the lines of a stanza; nothing for comments and deb-src."""
    found = ONE_LINE.match(line.split("#")[0].strip())
    if not found:
        return []
    lines = ["Types: deb", f"URIs: {found['uri']}", f"Suites: {found['suite']}", f"Components: {found['components']}"]
    for option in (found["options"] or "").strip(" []").split():
        name, _sign, value = option.partition("=")
        if name.lower() in OPTIONS:
            lines.append(f"{OPTIONS[name.lower()]}: {value.replace(',', ' ')}")
    return lines


def stanzas(path: Path) -> list[list[str]]:
    """All enabled entries of one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".sources":
        return [entry for line in text.splitlines() if (entry := one_line_entry(line))]
    blocks = (block.splitlines() for block in re.split(r"\n[ \t]*\n", text))
    entries = [[line for line in block if line.strip() and not line.startswith("#")] for block in blocks]
    return [entry for entry in entries if not any(re.match(r"(?i)enabled:\s*no", line) for line in entry)]


def for_release(entry: list[str], codename: str, other: str | None) -> list[str]:
    """The stanza limited to the suites of one release, or, for another release, to its main suite; empty when it has none."""
    suites = next((line.split()[1:] for line in entry if line.lower().startswith("suites:")), [])
    own = [suite for suite in suites if suite == codename or (not other and suite.startswith(f"{codename}-"))]
    if not own:
        return []
    line = f"Suites: {other or ' '.join(own)}"
    return [line if old.lower().startswith("suites:") else old for old in entry]


def main() -> None:
    folder, codename, *others = Path(sys.argv[1]), *sys.argv[2:]
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    entries = [entry for path in files if path.is_file() for entry in stanzas(path)]
    chosen = ["\n".join(for_release(entry, str(codename), str(others[0]) if others else None)) for entry in entries]
    found = [text for text in dict.fromkeys(chosen) if text]
    if not found:
        sys.exit(f"No apt source in {folder} names the release {codename}.")
    sys.stdout.write("\n\n".join(found) + "\n")


if __name__ == "__main__":
    main()
