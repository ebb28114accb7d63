"""Looks at the machine itself after `demo-down`: it does not ask the code that did the cleaning."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster import config
from tests.cluster.api import Cluster

_LINK = config.Place().link

LOOKED_FOR = "no process, mount, interface, network rule, network namespace or cgroup of the cluster."


def look(cluster: Cluster) -> list[str]:
    """Sentences about what a local cluster left on this machine; empty for the other kinds."""
    if cluster.kind != "local":
        return []
    state = str(cluster.kubeconfig.parent)
    return [*processes(state), *mounts(state), *_network(), *_cgroups()]


def processes(state: str) -> list[str]:
    """Processes whose program lies below a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            executable = str((process / "exe").readlink())
            root = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if executable.startswith(state):
            found.append(f"process {process.name}: {root[:80]}")
    return found


def mounts(state: str) -> list[str]:
    """Mounts below a directory."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [f"mount {line.split()[1]}" for line in lines if line.split()[1].startswith(state)]


def _network() -> list[str]:
    found = [f"interface {_LINK}"] if Path("/sys/class/net", _LINK).exists() else []
    found += [f"interface {p.name}" for p in Path("/sys/class/net").glob("cni*")]
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


def _cgroups() -> list[str]:
    places = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")]
    names = ("slidingserve", "kubepods", "kubepods.slice")
    return [f"cgroup {place / name}" for place in places for name in names if (place / name).is_dir()]
