"""What a rule of the CRD is to the tests, and how an object is offered to the API server."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.api import Cluster
from tests.contract.space import manifest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SLO = {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40}


class Rule(NamedTuple):
    """Where, a value that passes, a value that does not (None: take the field out), what the refusal says."""

    path: str
    good: Any
    bad: Any
    says: str


def slo(**changes: Any) -> list[dict[str, Any]]:
    return [{**SLO, **changes}]


def changed(path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(manifest())
    *parents, last = path.split(".")
    place = obj
    for part in parents:
        place = place.setdefault(part, {})
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return obj


def offer(cluster: Cluster, obj: dict[str, Any]) -> str:
    """What the API server says against an object; empty if it takes it."""
    return _offered(cluster, json.dumps(obj))


@cache  # many rules share what they accept
def _offered(cluster: Cluster, text: str) -> str:
    done = cluster.kubectl_result("create", "--dry-run=server", "-f", "-", stdin=text)
    return done.stderr if done.returncode else ""
