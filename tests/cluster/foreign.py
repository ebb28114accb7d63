"""Reasons not to start a local cluster here: something on the host that is not ours and would be in its way.

The node has a network of its own, so the host's ports, chains and interfaces are never touched. What
remains: the host must reach the cluster's addresses through our link, and through nothing else.
"""

import ipaddress
import json
import socket
import subprocess
from pathlib import Path

from tests.cluster.cache import ClusterError
from tests.cluster.config import Place


def refuse(place: Place) -> None:
    """Raise ClusterError with the reasons if a local cluster must not start in that place."""
    reasons = [*links(place), *routes(place), *kubelets(), *chains()]
    if reasons:
        raise ClusterError(
            "the local cluster would meet something that is not ours, so nothing was started:\n"
            + "".join(f"  - {reason}\n" for reason in reasons)
            + "Take it away, use another machine, or use CLUSTER=kind or CLUSTER=current."
        )


def links(place: Place) -> list[str]:
    """An interface with our link's name: another cache root's cluster is up."""
    if place.link in (name for _, name in socket.if_nameindex()):
        return [f"interface {place.link} exists: another SLIDINGSERVE_CACHE has a cluster up; run its `down`"]
    return []


def routes(place: Place) -> list[str]:
    """Routes and addresses of the host within the cluster's networks."""
    listed = subprocess.run(
        ["ip", "-json", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    )
    found = []
    for route in json.loads(listed.stdout or "[]"):
        target = route.get("dst", "default")
        if target == "default" or ":" in target or route.get("type") in ("broadcast", "multicast"):
            continue
        network = ipaddress.ip_network(target, strict=False)
        for ours in place.networks:
            if network.overlaps(ipaddress.ip_network(ours, strict=False)):
                found.append(
                    f"the host routes {target} to {route.get('dev', '?')}, and the cluster needs {ours}"
                )
    return found


def kubelets() -> list[str]:
    """Kubelets that share the host's network: their Services have the same addresses as ours."""
    own = Path("/proc/self/ns/net").readlink()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            if name == "kubelet" and (process / "ns" / "net").readlink() == own:
                found.append(f"a kubelet runs on this host (pid {process.name})")
        except OSError:
            continue  # it ended while we looked
    return found


def chains() -> list[str]:
    """Service chains of another cluster's kube-proxy in the host's network."""
    for program in ("iptables-save", "ip6tables-save"):
        listed = subprocess.run([program, "-t", "nat"], capture_output=True, text=True, check=False).stdout
        if ":KUBE-SERVICES " in listed:
            return [f"{program} shows KUBE-SERVICES chains: another cluster's kube-proxy works on this host"]
    return []
