"""Does every panel show something? Asked of a real Prometheus by the e2e tests, under load."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dashboards.build import PLACES
from dashboards.promql import concrete, expressions

ROOT = Path(__file__).parents[2]


class _Sample(Protocol):
    @property
    def value(self) -> float: ...


class Queries(Protocol):
    """What is needed of a Prometheus: tests.cluster.monitoring.Prometheus has it."""

    def query(self, expr: str) -> Sequence[_Sample]:
        """Samples of an instant query."""


def without_data(prometheus: Queries, interval: str = "30s", span: str = "10m") -> dict[str, str]:
    """Panel and query letter -> expression, of those queries of the dashboards that give no number now.

    `interval` stands for $__rate_interval: four scrapes or more. NaN (a quantile of nothing) is no number.
    """
    empty = {}
    for file in sorted((ROOT / PLACES[0]).glob("*.json")):
        for panel, expr in expressions(json.loads(file.read_text())):
            asked = concrete(expr, interval, span)
            if all(math.isnan(sample.value) for sample in prometheus.query(asked)):
                empty[panel] = asked
    return empty
