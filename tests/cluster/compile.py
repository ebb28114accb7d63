"""Runs one Go build and says how far it is: packages compiled, of those that must be. Used by `tools`."""

import os
import subprocess
import time
from pathlib import Path

from tests.cluster import cache, golang, say
from tests.cluster.cache import ClusterError

EVERY = 10.0
"""Seconds between two lines about a build where a line cannot be rewritten."""
_SURE = 0.05
"""The fraction from which on the time that is left can be guessed."""


def environment() -> dict[str, str]:
    """How Go runs for us: static programs, and caches of its own, so that `clean-all` knows what is ours.

    GOCACHE and GOMODCACHE, where they are set, stay what they are. The compiler, a process a package, leaves
    its garbage until it has 2 GB of it: that takes a fifth off its time.
    """
    own = cache.root() / "go"
    caches = {"GOCACHE": str(own / "build"), "GOMODCACHE": str(own / "modules")}
    flags = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -modcacherw", "GOWORK": "off"}
    memory = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
    return {**caches, **memory, **os.environ, **flags}


def run(what: str, command: list[str], source: Path, environ: dict[str, str], log: Path, total: int) -> None:
    """Run the compiler at low priority; `total` packages are to be compiled (0: not known).

    Raises ClusterError with the compiler's words.
    """
    with cache.step(what), log.open("w") as output:
        begin = told = time.monotonic()
        process = subprocess.Popen(
            ["nice", "-n", "5", *command], cwd=source, env=environ, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if say.rewrites() or now - told >= EVERY:
                    told = now
                    say.live("  " + progress(what, compiled(log.read_text()), total, now - begin))
        say.done()
    if process.returncode:
        raise ClusterError(f"{what} failed ({process.returncode}):\n" + log.read_text()[-3000:])
    log.unlink()


def stale(packages: list[str], flags: list[str], source: Path, environ: dict[str, str]) -> int:
    """How many packages `go build` would compile, those it has in its cache left out; 0 if it cannot say.

    It fetches the modules that the build needs.
    """
    command = [golang.command(), "list", "-deps", *flags, "-f", "{{.Stale}}", *packages]
    listed = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True, check=False)
    return listed.stdout.split().count("true") if listed.returncode == 0 else 0


def compiled(log: str) -> int:
    """Packages that `go build -v` has begun: its lines without go's own words and the compiler's."""
    return sum(1 for line in log.splitlines() if line and " " not in line and not line.startswith("#"))


def progress(what: str, begun: int, total: int, seconds: float) -> str:
    """One line: how far, and about how long yet.

    A package counts when it begins, and the largest come last, so the guess is a little too short.
    """
    if not total or not begun:
        return f"{what}: {seconds:.0f} s, {begun} packages compiled"
    fraction = min(begun / total, 1.0)
    text = f"{what}: {seconds:.0f} s, {fraction:.0%} ({min(begun, total):,} of {total:,} packages)"
    if fraction >= 1.0:
        return f"{text}, linking"
    if fraction < _SURE:
        return text
    return f"{text}, about {say.duration(seconds * (1 - fraction) / fraction)} left"
