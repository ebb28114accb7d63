"""PromQL in small pieces: the first step of a dashboard. `slo.py` composes them, tests read them back.

Every selector carries the dashboard's variables. The engine's metrics come from several processes and pods,
so an expression always aggregates, and names the labels it keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

ENGINE = 'namespace=~"$namespace", sloserve=~"$sloserve"'
BY_CLASS = f'{ENGINE}, slo_class=~"$slo_class"'

# Labels that a series keeps. Two resources may name a class alike, with other targets: never merge them.
SERVER = ("namespace", "sloserve")
CLASS = (*SERVER, "slo_class")

# Words that Grafana replaces; `concrete` does the same for a plain Prometheus.
EVERYTHING = {"namespace": ".*", "sloserve": ".*", "slo_class": ".*"}


def select(metric: str, scope: str = ENGINE, **labels: str) -> str:
    """A vector selector: the metric, the dashboard's variables, and equality on further labels."""
    extra = "".join(f', {name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{scope}{extra}}}"


def per_second(selector: str, *by: str) -> str:
    """Rate of a counter, summed over pods and processes, by the labels that are named."""
    return f"sum by ({', '.join(by)}) (rate({selector}[$__rate_interval]))"


def over_range(selector: str, *by: str) -> str:
    """Increase of a counter over the time range that the dashboard shows."""
    return f"sum by ({', '.join(by)}) (increase({selector}[$__range]))"


def level(how: str, selector: str, *by: str) -> str:
    """A gauge, aggregated (sum, min, max) over pods and processes, by the labels that are named."""
    return f"{how} by ({', '.join(by)}) ({selector})"


def changes(selector: str, *by: str) -> str:
    """How often a counter went up within the rate interval."""
    return f"sum by ({', '.join(by)}) (increase({selector}[$__rate_interval]))"


def quantile(q: float, histogram: str, *by: str, scope: str = ENGINE) -> str:
    """Quantile q of a histogram (its name without `_bucket`) over the rate interval."""
    return f"histogram_quantile({q}, {per_second(select(histogram + '_bucket', scope), 'le', *by)})"


def mean(histogram: str, *by: str, scope: str = ENGINE) -> str:
    """Mean of a histogram over the rate interval. Negative observations: none, they have no `_sum`."""
    total = per_second(select(histogram + "_sum", scope), *by)
    return f"{total} / {per_second(select(histogram + '_count', scope), *by)}"


def concrete(
    expr: str, interval: str = "1m", span: str = "10m", values: Mapping[str, str] = EVERYTHING
) -> str:
    """The expression as Prometheus takes it, with Grafana's variables filled in.

    `interval` stands for $__rate_interval, `span` for $__range; both are Prometheus durations.
    Raises ValueError if a variable stays: Grafana knows it, this function does not.
    """
    text = expr.replace("$__rate_interval", interval).replace("$__range", span)
    for name, value in values.items():
        text = text.replace(f"${name}", value)
    if "$" in text:
        raise ValueError(f"unknown Grafana variable in: {text}")
    return text


def expressions(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(panel title and query letter, expression) of every query of a dashboard's JSON."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets") or ():
            yield f"{panel['title']} {target['refId']}", target["expr"]


def metric_names(expr: str) -> set[str]:
    """Names of the metrics that an expression selects: every word before a brace."""
    return set(re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{", expr))
