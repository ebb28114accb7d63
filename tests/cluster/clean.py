"""`make clean-all`: removes what this project has put on this machine, and says how much each was.

Clusters first, then caches, the checkout's environments, and the Debian packages that the harness recorded as
it installed them. Nothing else: what was there before stays, and so does what it cannot tell apart.
`make demo-down` shows the same list. Standard library alone, as it removes the environments.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import api, cache, installed, say
from tests.cluster.cache import ClusterError
from tests.cluster.kind import Kind
from tests.cluster.local import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
CACHES = {
    "tools": "programs built from Go modules",
    "go/build": "what Go has compiled",
    "go/modules": "Go modules as downloaded",
    "images": "images of the operator and the engine",
    "buildah": "the image builder's layers",
    "uv": "Python packages as downloaded",
    "cluster*": "local clusters: loaded images, certificates, logs",
    "kind": "the kind cluster's credentials",
    "current": "a copy of your cluster's credentials",
    "local": "",
}
"""What lies below the cache root; anything else there is not ours and stays."""
CHECKOUT = (".venv", ".venv-engine", "build", ".mypy_cache", ".ruff_cache", ".pytest_cache")
SHARED = {
    "uv": (("UV_CACHE_DIR", "~/.cache/uv"), ".venv/bin/uv cache clean"),
    "go build": (("GOCACHE", "~/.cache/go-build"), "go clean -cache"),
    "go modules": (("GOMODCACHE", "~/go/pkg/mod"), "go clean -modcache"),
}
"""Caches that other projects of the user share: named, never removed."""


@dataclass(frozen=True)
class Found:
    """One thing on disk; bytes."""

    path: Path
    what: str
    size: int


def caches(root: Path) -> list[Found]:
    """What of ours lies below a cache root."""
    found = []
    for pattern, what in CACHES.items():
        places = [path for path in sorted(root.glob(pattern)) if not path.is_symlink()]
        found += [Found(path, what, used(path)) for path in places]
    return found


def environments(checkout: Path = ROOT) -> list[Found]:
    """Environments and outputs in a checkout."""
    return [Found(path, "", used(path)) for name in CHECKOUT if (path := checkout / name).is_dir()]


def used(path: Path) -> int:
    """Bytes on disk of a file or a tree, other file systems in it left out."""
    done = subprocess.run(["du", "-skx", str(path)], capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) * 1024 if done.stdout else 0


def stays() -> list[str]:
    """Lines about what a cluster that is down leaves on this machine."""
    found = caches(cache.root())
    lines = [f"{say.size(sum(one.size for one in found))} of caches in {cache.root()}"] if found else []
    present = installed.there()
    if packages := [name for name in installed.recorded() if name in present]:
        lines.append(f"Debian packages that it installed, none started at boot: {' '.join(packages)}")
    return lines


def clean() -> None:
    """Remove everything of ours, saying each. Raises ClusterError where something cannot go."""
    root = cache.root()
    refuse(root)
    print("looking how much there is ...", flush=True)
    found = [*caches(root), *environments()]  # before a cluster's end takes its images
    _clusters(root)
    freed = sum(_remove(one) for one in found)
    freed += sum(_remove(one) for one in caches(root))  # locks that the clusters' end took
    freed += _packages()
    print(f"freed {say.size(freed)} in all")
    _others(root)


def refuse(root: Path) -> None:
    """Raise ClusterError where the cache root is a directory that other things live in."""
    if Path.home().is_relative_to(root) or ROOT.is_relative_to(root):
        raise ClusterError(
            f"SLIDINGSERVE_CACHE={root} holds more than caches, so nothing is removed there: delete by hand"
            f" what is ours ({', '.join(CACHES)})"
        )


def _clusters(root: Path) -> None:
    """Every cluster of this cache root, not only the one that CLUSTER_NUMBER names."""
    for number in (int(digit) for digit in api.NUMBERS):
        cluster = LocalCluster.numbered(number)
        if not cluster.state.exists():
            continue
        with cache.using(root / "local" / f".users{number or ''}") as users:
            if not users.alone():
                raise ClusterError(
                    f"tests use {cluster.state}: let them end first; nothing was removed there"
                )
        cluster.down(drop_images=True)
    if (root / "kind").is_dir():
        Kind().down()
    for point in reversed(_mounts(root / "buildah")):  # it keeps its store mounted
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def _remove(found: Found) -> int:
    """Remove a tree and say so; what is mounted in it is never followed."""
    if left := _mounts(found.path):
        raise ClusterError(f"{found.path} stays: {left[0]} is mounted there. Unmount it, then again.")
    shutil.rmtree(found.path)
    what = f" ({found.what})" if found.what else ""
    if found.size >= 1e6:
        print(f"{say.size(found.size):>8}  {found.path}{what}", flush=True)
    return found.size


def _mounts(place: Path) -> list[str]:
    """Mount points at a directory and below it."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1].replace("\\040", " ") for line in lines]
    return [point for point in points if f"{point}/".startswith(f"{place}/")]


def _packages() -> int:
    """Remove the packages that we installed; returns the bytes they took."""
    sizes, removal = installed.there(), installed.decide()
    installed.remove(removal.remove)
    freed = sum(sizes.get(name, 0) for name in removal.remove)
    if removal.remove:
        print(f"{say.size(freed):>8}  Debian packages: {' '.join(removal.remove)}")
    for name, why in removal.stay.items():
        print(f"   stays  Debian package {name}: {why}")
    return freed


def _others(root: Path) -> None:
    """Name what is left: files below the root that are not ours, and caches shared with other projects."""
    for empty in (root / "go", root):
        with suppress(OSError):  # not there, not empty, or a disk of its own
            empty.rmdir()
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        print(f"   stays  {path}: not of this project's making")
    for name, ((variable, usual), command) in SHARED.items():
        path = Path(os.environ.get(variable) or usual).expanduser()
        if path.is_dir() and not path.is_relative_to(root):
            print(f"   stays  {path} ({name}): shared with other projects; `{command}` empties it")


def main(arguments: Iterable[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.clean", description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="only say what would be removed, and how much it is"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        if options.list:
            for one in (*caches(cache.root()), *environments()):
                print(f"{say.size(one.size):>8}  {one.path}")
            print(f"Debian packages: {' '.join(installed.recorded()) or 'none'}")
        else:
            clean()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
