"""`make doctor`: whether `make demo` can work on this machine, what it takes, and what to do if it cannot.

Pure but for `main`: `machine` looks, `examine` judges. `make demo` runs it first, before any environment is
there, so Python 3.8 can read it and it imports only what comes with Python.
"""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import dataclass

from tests.cluster import needs
from tests.demo import forecast, machine
from tests.demo.machine import Facts

OK, NOTE, FAIL = "ok", "note", "FAIL"

DISK = {"local": 20e9, "kind": 12e9, "current": 3e9}
"""Bytes that a first `make demo` writes below the cache root; it is measured on Debian 12."""
CHECKOUT = 1e9
TEST_DISK = 30e9
"""The same for `make test`, whose engine also has an environment in the checkout."""
MEMORY = 5e9
TEST_MEMORY = 14e9


@dataclass(frozen=True)
class Line:
    """One finding; a remedy comes with each FAIL, and with a note where there is one."""

    level: str
    text: str
    remedy: str = ""


def examine(facts: Facts) -> list[Line]:
    """Every finding, in the order in which the demo would meet them."""
    kind = chosen(facts)
    if kind not in DISK:
        remedy = "unset CLUSTER, or use local, kind or current"
        return [Line(FAIL, f"CLUSTER={facts.cluster!r} is not a kind of cluster", remedy)]
    lines = [*system(facts), *python(facts), cluster(facts, kind), *disk(facts, kind), *memory(facts)]
    if kind == "local":
        lines += [*rights(facts), *network(facts), packages(facts)]
    return [*lines, *go(facts, kind), *(Line(*found) for found in forecast.times(facts, kind))]


def chosen(facts: Facts) -> str:
    """The kind of cluster, as the demo chooses it."""
    return facts.cluster or ("kind" if facts.docker and facts.kind else "local")


def system(facts: Facts) -> list[Line]:
    """Linux on x86-64: that is what vLLM's CPU build and the namespaces need."""
    if facts.system == "Linux" and facts.processor in ("x86_64", "amd64"):
        return [Line(OK, f"Linux on {facts.processor}, {facts.cores} cores")]
    remedy = "use a Linux machine or virtual machine with an x86-64 processor"
    return [
        Line(
            FAIL,
            f"{facts.system} on {facts.processor}: the engine's CPU build is for Linux on x86-64",
            remedy,
        )
    ]


def python(facts: Facts) -> list[Line]:
    """The Python that makes the environments."""
    have, need = ".".join(map(str, facts.python)), ".".join(map(str, needs.PYTHON))
    if facts.python < needs.PYTHON:
        remedy = f"install one, then: make PYTHON=/path/to/python{need} demo"
        return [Line(FAIL, f"Python {have}: {need} or newer is needed", remedy)]
    if not facts.venv:
        remedy = "apt-get install python3-venv"
        return [Line(FAIL, f"Python {have} comes without venv, which makes the environments", remedy)]
    return [Line(OK, f"Python {have}")]


def cluster(facts: Facts, kind: str) -> Line:
    """Which Kubernetes it will be, and whether a faster way is at hand."""
    if kind == "kind":
        if not facts.docker:
            return Line(
                FAIL, "CLUSTER=kind, and no Docker engine answers", "start Docker, or use CLUSTER=local"
            )
        if not facts.kind:
            remedy = "go install sigs.k8s.io/kind@latest, or use CLUSTER=local"
            return Line(FAIL, "CLUSTER=kind, and there is no kind", remedy)
        return Line(
            OK, "Kubernetes by kind, in Docker: pulled, not built (CLUSTER=local builds one without Docker)"
        )
    if kind == "current":
        return Line(OK, "Kubernetes is yours: the current context; nothing is built for it but its programs")
    if facts.docker and facts.kind:
        remedy = "CLUSTER=kind make demo pulls a Kubernetes and builds none"
        return Line(NOTE, "Kubernetes by CLUSTER=local, though Docker and kind are here", remedy)
    if facts.docker:
        remedy = "install kind, and the demo pulls a Kubernetes instead of building one"
        return Line(NOTE, "Kubernetes on this machine: Docker answers, but there is no kind", remedy)
    return Line(OK, "Kubernetes on this machine, without a container engine")


def disk(facts: Facts, kind: str) -> list[Line]:
    """Room for what is not in the cache yet, and for the checkout's environments."""
    left = DISK[kind] * (1 - 0.9 * forecast.share_cached(facts, kind))
    need = left + (CHECKOUT if facts.one_disk else 0)
    remedy = (
        "free some (`make clean-all` removes what this project has built), or SLIDINGSERVE_CACHE=/larger/disk"
    )
    text = f"disk: {size(facts.cache_free)} free at {facts.cache}"
    if facts.cache_free < need:
        return [Line(FAIL, f"{text}, {size(need)} needed", remedy)]
    if not facts.one_disk and facts.checkout_free < CHECKOUT:
        text = f"disk: {size(facts.checkout_free)} free at this checkout, {size(CHECKOUT)} needed"
        return [Line(FAIL, text, "free some there, or clone to a larger disk")]
    if facts.cache_free < TEST_DISK:
        return [Line(NOTE, f"{text}, enough for the demo; `make test` takes up to {size(TEST_DISK)}", remedy)]
    return [Line(OK, f"{text}, {size(need)} needed")]


def memory(facts: Facts) -> list[Line]:
    """Memory for a control plane and an engine."""
    text = f"memory: {size(facts.memory)} available"
    if facts.memory < MEMORY:
        return [Line(FAIL, f"{text}, {size(MEMORY)} needed", "close other programs, or use a larger machine")]
    if facts.memory < TEST_MEMORY:
        return [Line(NOTE, f"{text}, enough for the demo; `make test` takes up to {size(TEST_MEMORY)}")]
    return [Line(OK, f"{text}, {size(MEMORY)} needed")]


def rights(facts: Facts) -> list[Line]:
    """Root, and namespaces that may be made."""
    if not facts.root:
        remedy = "become root (sudo -E make demo), or use Docker with kind: CLUSTER=kind"
        return [Line(FAIL, "not root: a cluster without Docker makes namespaces, mounts and cgroups", remedy)]
    if facts.namespaces:
        remedy = "use a virtual machine or a privileged container, or Docker with kind: CLUSTER=kind"
        return [Line(FAIL, f"root, but namespaces cannot be made here: {facts.namespaces}", remedy)]
    return [Line(OK, "root")]


def network(facts: Facts) -> list[Line]:
    """The cluster's addresses, against what the host routes elsewhere."""
    if facts.up:
        return [Line(OK, f"network: the cluster's own interface {needs.link(facts.number)} is up")]
    if facts.kubelet:
        remedy = "stop it, use another machine, or CLUSTER=kind"
        return [Line(FAIL, f"a kubelet runs on this host (process {facts.kubelet}): two would meet", remedy)]
    taken = conflicts(facts, facts.number)
    if not taken:
        return [Line(OK, f"network: {', '.join(needs.networks(facts.number))} are free")]
    free = [number for number in range(10) if not conflicts(facts, number)]
    remedy = (
        f"CLUSTER_NUMBER={free[0]} make demo takes others" if free else "take the route away, or CLUSTER=kind"
    )
    return [Line(FAIL, f"network: {taken[0]}", remedy)]


def conflicts(facts: Facts, number: int) -> list[str]:
    """Sentences about the host's routes within the networks of local cluster `number`."""
    found = []
    for target, interface in facts.routes:
        for ours in needs.networks(number):
            if ipaddress.ip_network(target).overlaps(ipaddress.ip_network(ours)):
                found.append(f"the host routes {target} to {interface}, and the cluster needs {ours}")
    return found


def packages(facts: Facts) -> Line:
    """Debian packages that will be installed."""
    if not facts.missing:
        return Line(OK, "Debian packages: all there")
    names = " ".join(facts.missing)
    if not facts.apt:
        return Line(FAIL, f"not installed, and no apt-get: {names} (Debian's names)", "install them by hand")
    return Line(
        NOTE, f"Debian packages that will be installed: {names}", "`make clean-all` removes them again"
    )


def go(facts: Facts, kind: str) -> list[Line]:
    """The compiler, where something must be compiled."""
    if kind == "local" and not {"kc", "helm"} - set(facts.cached):
        return [Line(OK, "Go programs: built already")]
    oldest, asked = (".".join(map(str, version)) for version in (needs.GO_OLDEST, needs.GO_NEWEST_ASKED))
    if facts.go is None or facts.go < needs.GO_OLDEST:
        have = "no Go" if facts.go is None else "Go {}.{}".format(*facts.go)
        return [
            Line(
                NOTE, f"{have}: {needs.GO_WHEEL} from PyPI is used (80 MB; {oldest} or newer serves as well)"
            )
        ]
    have = "Go {}.{}".format(*facts.go)
    if facts.go < needs.GO_NEWEST_ASKED and not facts.go_may_fetch:
        remedy = f"GOTOOLCHAIN=auto, or install Go {asked}"
        return [Line(NOTE, f"{have} that may fetch no other: some tools ask for {asked}", remedy)]
    return [Line(OK, have)]


def size(count: float) -> str:
    """Bytes in whole GB."""
    return f"{count / 1e9:.0f} GB"


def text(lines: list[Line]) -> str:
    """What is printed; a remedy stands below its line."""
    shown = []
    for line in lines:
        shown.append(f"{line.level:>5}  {line.text}")
        if line.remedy:
            shown.append(f"       -> {line.remedy}")
    failed = sum(line.level == FAIL for line in lines)
    verdict = (
        "make demo can work here."
        if not failed
        else f"make demo cannot work here yet: {failed} to mend, above."
    )
    return "\n".join([*shown, verdict])


def main() -> int:
    """Returns 1 only where the demo cannot work."""
    lines = examine(machine.look())
    print(text(lines))
    return 1 if any(line.level == FAIL for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
