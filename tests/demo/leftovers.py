"""Looks at the machine itself after `demo-down`: it does not ask the code that did the cleaning."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster.api import Cluster
from tests.cluster.config import Place
from tests.cluster.local import LocalCluster

LOOKED_FOR = "no process, mount, interface, network rule, network namespace or cgroup of the cluster."


def look(cluster: Cluster) -> list[str]:
    """Sentences about what a local cluster left on this machine; empty for the other kinds.

    Only what is this cluster's: others may run beside it (CLUSTER_NUMBER).
    """
    if not isinstance(cluster, LocalCluster):
        return []
    state = str(cluster.state)
    return [*processes(state), *mounts(state), *network(cluster.place), *cgroups(cluster.place)]


def processes(state: str) -> list[str]:
    """Processes whose program lies below a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            executable = str((process / "exe").readlink())
            root = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if executable.startswith(f"{state.rstrip('/')}/"):
            found.append(f"process {process.name}: {root[:80]}")
    return found


def mounts(state: str) -> list[str]:
    """Mounts at a directory and below it."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [f"mount {point}" for point in points if f"{point}/".startswith(f"{state.rstrip('/')}/")]


def network(place: Place, links: Path = Path("/sys/class/net")) -> list[str]:
    """The cluster's link, and what a kubelet or a CNI outside a node's own namespaces would leave."""
    found = [f"interface {place.link}"] if (links / place.link).exists() else []
    found += [f"interface {p.name}" for p in links.glob("cni*")]
    found += [f"network namespace {p.name}" for p in Path("/run/netns").glob("cni-*")]
    for command in ("iptables-save", "ip6tables-save"):
        try:
            rules = subprocess.run([command], capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            continue
        found += [f"{command}: {rule}" for rule in rules.splitlines() if "KUBE-" in rule or "CNI-" in rule][
            :3
        ]
    return found


def cgroups(place: Place, root: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """The cluster's cgroups, and those of a kubelet that has none of its own."""
    names = (place.name, "kubepods", "kubepods.slice")
    return [
        f"cgroup {home / name}"
        for home in (root, *root.glob("*/"))
        for name in names
        if (home / name).is_dir()
    ]
