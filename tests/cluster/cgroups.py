"""The local cluster's cgroups: one directory of its own in each hierarchy, and all pods below it.

Version 1 (hybrid) was run; version 2 is written from its documentation.
"""

import os
import time
from pathlib import Path

from tests.cluster.cache import ClusterError


def create(name: str) -> None:
    """Make the cgroup `name` in each hierarchy, ready to have children."""
    for hierarchy in hierarchies():
        own = hierarchy / name
        own.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists():  # version 1: empty until set, and then no task may enter
                (own / file).write_text((hierarchy / file).read_text())
        if (hierarchy / "cgroup.subtree_control").exists():  # version 2: children have what they are given
            for controller in (hierarchy / "cgroup.controllers").read_text().split():
                for directory in (hierarchy, own):
                    (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def hierarchies() -> list[Path]:
    """Every mounted cgroup hierarchy: one per controller in version 1, one in version 2."""
    fields = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(field[1]) for field in fields if field[2] in ("cgroup", "cgroup2")]


def remove(name: str) -> None:
    """Remove the cgroup `name` in every hierarchy; the kernel needs a moment after the last task has gone."""
    deadline = time.monotonic() + 10
    for own in [hierarchy / name for hierarchy in hierarchies()]:
        while own.exists():
            try:
                for directory, _, _ in os.walk(own, topdown=False):
                    Path(directory).rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise ClusterError(f"{own} could not be removed: tasks of it still run") from None
                time.sleep(0.05)
