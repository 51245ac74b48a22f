"""What the base image and the image of a node are made from: says it as digests, and writes it down where it has to be built.

    python3 build_contexts.py DOCKERFILES PUBLIC_KEY RELEASE NEWER_RELEASE [FOLDER]

DOCKERFILES is the folder images/ of the collection. NEWER_RELEASE, which may be empty, is where the nodes' Docker comes from. With
FOLDER the build contexts are written to FOLDER/base and FOLDER/node. The answer is a JSON object: a digest for each image, and the
mirror that has the release.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import apt_sources

APT = Path("/etc/apt")
# Keyrings and certificates of this machine.
TRUST = (
    "/usr/share/keyrings",
    "/etc/apt/keyrings",
    "/etc/apt/trusted.gpg.d",
    "/usr/local/share/ca-certificates",
    "/etc/ssl/certs/ca-certificates.crt",
)
APT_SETTING = re.compile(r"Acquire::https?::.*(Proxy|CaInfo)")

# A build context: paths in it to their content.
Context = dict[str, bytes]


def proxy_settings(dump: str, uris: Iterable[str]) -> str:
    """apt's own proxies and certificates, then the environment's proxies and the hosts that it excepts from them."""
    lines = [line for line in dump.splitlines() if APT_SETTING.match(line)]
    lines = ["\n".join(lines)]
    proxies = urllib.request.getproxies_environment()
    schemes = [scheme for scheme in ("http", "https") if scheme in proxies]
    lines += [f'Acquire::{scheme}::Proxy "{proxies[scheme]}";' for scheme in schemes]
    hosts = dict.fromkeys(urllib.parse.urlsplit(uri).hostname or "" for uri in uris)
    excepted = [host for host in hosts if host and urllib.request.proxy_bypass_environment(host)]
    lines += [f'Acquire::{scheme}::Proxy::{host} "DIRECT";' for scheme in schemes for host in excepted]
    return "\n".join(lines) + "\n"


def apt_dump() -> str:
    command = ["apt-config", "dump", "--no-empty", "--format", '%f "%v";%n', "Acquire"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def files_below(place: Path) -> Iterator[Path]:
    yield from sorted(path for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())


def base_context(dockerfiles: Path, release: str) -> Context:
    text = apt_sources.sources(APT, release)
    context = {
        "Dockerfile": (dockerfiles / "base" / "Dockerfile").read_bytes(),
        "machine/etc/apt/sources.list.d/machine.sources": text.encode(),
        "machine/etc/apt/apt.conf.d/90machine": proxy_settings(
            apt_dump(), re.findall(r"\bhttps?://\S+", text)
        ).encode(),
    }
    for place in TRUST:
        context |= {f"machine{path}": path.read_bytes() for path in files_below(Path(place))}
    return context


def node_context(dockerfiles: Path, public_key: Path, release: str, newer: str) -> Context:
    folder = dockerfiles / "node"
    context = {name: (folder / name).read_bytes() for name in ("Dockerfile", "host-keys.conf")}
    context["authorized_keys"] = public_key.read_bytes()
    if newer:
        pin = (folder / "docker-pin").read_text(encoding="utf-8").replace("@RELEASE@", newer)
        context["machine/etc/apt/sources.list.d/trainyard-docker.sources"] = apt_sources.sources(
            APT, release, newer
        ).encode()
        context["machine/etc/apt/preferences.d/trainyard-docker"] = pin.encode()
    return context


def digest(context: Context, *below: str) -> str:
    """One number for a context and the digests of the images below it."""
    sums = [hashlib.sha1(context[path], usedforsecurity=False).hexdigest() for path in sorted(context, key=str.lower)]
    return hashlib.sha256(" ".join([*below, *sums]).encode()).hexdigest()


def write(context: Context, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "machine").mkdir(parents=True)
    for name, content in context.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        # sshd refuses keys that others could write; everything else is for everybody to read.
        path.chmod(0o600 if name == "authorized_keys" else 0o644)


def main() -> None:
    dockerfiles, public_key, release, newer, *folder = sys.argv[1:]
    base = base_context(Path(dockerfiles), release)
    node = node_context(Path(dockerfiles), Path(public_key), release, newer)
    if folder:
        write(base, Path(folder[0]) / "base")
        write(node, Path(folder[0]) / "node")
    base_digest = digest(base)
    answer = {"base": base_digest, "node": digest(node, base_digest), "mirror": apt_sources.mirror(APT, release)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
