"""How long the demo and the tests will take on a machine, from what each part was measured to take.

Used by `doctor`; Python 3.8 can read it, and it imports only what comes with Python.
"""

from __future__ import annotations

from tests.demo.machine import Facts

PARTS = {"kc": 400.0, "helm": 100.0, "base": 30.0, "engine-cpu": 180.0, "operator": 40.0}
"""Seconds of one core that each part takes, built the first time; see `Facts.cached`.

From 946 seconds for all of them on two cores shared by seven others, where the same package took the
compiler a quarter longer than on quiet ones.
"""
DEMO_RUN = 330.0
"""Seconds from built to the table: cluster, chart, engine, and four blocks of requests at a fixed rate."""
TEST_BUILD = 900.0
"""Seconds of one core for what only the tests build: DNS, Prometheus and its operator, a second Helm."""
TEST_RUN = 3000.0


def share_cached(facts: Facts, kind: str) -> float:
    """How much of the building is done, by time."""
    parts = parts_of(kind)
    return sum(PARTS[name] for name in parts if name in facts.cached) / sum(PARTS[name] for name in parts)


def parts_of(kind: str) -> list[str]:
    """The parts that are built for a kind of cluster."""
    return {"local": list(PARTS), "kind": ["helm", "engine-cpu", "operator"], "current": ["helm"]}[kind]


def times(facts: Facts, kind: str) -> list[tuple[str, str]]:
    """What is here already, and how long both commands will take."""
    have = [name for name in parts_of(kind) if name in facts.cached]
    left = [name for name in parts_of(kind) if name not in facts.cached]
    text = f"cached: {', '.join(have) or 'nothing'}" + (f"; to be built: {', '.join(left)}" if left else "")
    cores = max(1, min(facts.cores, 4))
    build = sum(PARTS[name] for name in left) / cores
    tests = build + TEST_RUN + (0 if "prometheus" in facts.cached else TEST_BUILD / cores)
    quiet = f"make demo about {minutes(build + DEMO_RUN)}, make test about {minutes(tests)}"
    lines = [("ok", text), ("ok", f"time on a quiet machine: {quiet}")]
    if facts.cores < 2:
        lines.append(("note", "one core: the engine and its load share it: both policies will miss much"))
    elif facts.load > 0.5 * facts.cores:
        longer = f"{1 + facts.load / facts.cores:.0f} times as long, and worse figures"
        lines.append(("note", f"busy machine (load {facts.load:.1f} on {facts.cores} cores): up to {longer}"))
    return lines


def minutes(seconds: float) -> str:
    """Whole minutes."""
    return f"{max(1, round(seconds / 60))} min"
