"""Prints constraints for installing into an environment that must stay as it is.

Place in the flow: the GPU image, on vLLM's own image. Every package that is installed is pinned to its
version; what is not installed is pinned to ours. So pip adds what is missing, changes nothing, or fails.

usage: pins.py CONSTRAINTS > PINS
"""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path


def canonical(name: str) -> str:
    """A project's name in the one spelling that all spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(constraints: str) -> dict[str, str]:
    """Name -> version: ours from the text of a constraints file, overruled by what is installed."""
    rows = (
        line.split("==") for line in constraints.splitlines() if "==" in line and not line.startswith("#")
    )
    ours = {canonical(name): version.strip() for name, version in rows}
    return ours | {canonical(found.name): found.version for found in distributions()}


if __name__ == "__main__":
    merged = pins(Path(sys.argv[1]).read_text())
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in sorted(merged.items()))
