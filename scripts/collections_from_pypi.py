"""Installs Galaxy collections from PyPI's `ansible` package, for machines that cannot reach Galaxy.

PyPI's `ansible` package is a bundle of collections, one major release for each ansible-core. Only the collections
asked for are unpacked from the wheel. Run it with the Python that has ansible-core installed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# ansible 12 was made for ansible-core 2.19, 13 for 2.20, and so on.
FIRST_CORE_MINOR = 19
FIRST_BUNDLE_MAJOR = 12


def bundle_requirement() -> str:
    """The release of the bundle that belongs to the installed ansible-core."""
    try:
        minor = int(version("ansible-core").split(".")[1])
    except PackageNotFoundError:
        sys.exit(f"ansible-core is not installed for {sys.executable}. Install requirements.txt first.")
    major = FIRST_BUNDLE_MAJOR + minor - FIRST_CORE_MINOR
    return f"ansible>={major},<{major + 1}"


def download(requirement: str, folder: str) -> Path:
    """Downloads the bundle's wheel, with whatever index pip is set up for."""
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", folder, requirement], check=False)
    if done.returncode != 0:
        sys.exit(f"pip could not download {requirement}. Is a package index reachable (pip config list)?")
    return next(Path(folder).glob("ansible-*.whl"))


def unpack(wheel: Path, names: list[str], target: Path) -> None:
    """Unpacks the named collections, each replacing an earlier copy as a whole."""
    with zipfile.ZipFile(wheel) as bundle, tempfile.TemporaryDirectory(dir=target) as scratch:
        members = bundle.namelist()
        for name in names:
            prefix = f"ansible_collections/{name.replace('.', '/')}/"
            wanted = [member for member in members if member.startswith(prefix)]
            if not wanted:
                sys.exit(f"{wheel.name} has no collection {name}.")
            bundle.extractall(scratch, wanted)
            place = target / prefix
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(scratch) / prefix, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True, type=Path, help="folder that holds ansible_collections")
    parser.add_argument("names", nargs="+", metavar="NAMESPACE.NAME")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        unpack(download(bundle_requirement(), folder), options.names, options.target)


if __name__ == "__main__":
    main()
