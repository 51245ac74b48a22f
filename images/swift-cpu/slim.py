"""Removes from a virtual environment what training does not need: tests, headers, static libraries, type stubs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FOLDERS = ("tests", "include", "__pycache__")
KEPT = {"torch/testing", "numpy/_core/tests", "numpy/testing/tests"}
PATTERNS = ("*.a", "*.pyi", "*.lib", "*.pxd")
# Imported by nothing that trains; each is tens of megabytes.
PLACES = (
    "torch/bin/protoc*",
    "torch/share",
    "torch/test",
    "pyarrow/libarrow_flight.so*",
    "pyarrow/_flight*",
    "matplotlib/mpl-data/sample_data",
    "pip",
    "tensorboard/webfiles.zip",
    "gradio/templates",
)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


def main() -> None:
    site = next((Path(sys.argv[1]) / "lib").glob("python3*/site-packages"))
    for place in PLACES:
        for path in sorted(site.glob(place)):
            remove(path)
    for name in FOLDERS:
        for path in sorted(site.rglob(name)):
            if str(path.relative_to(site)) not in KEPT:
                remove(path)
    for pattern in PATTERNS:
        for path in sorted(site.rglob(pattern)):
            remove(path)


if __name__ == "__main__":
    main()
