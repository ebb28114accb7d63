"""From results to numbers: attainment by class, percentiles, and whether a rate is within goodput.

Misses are counted over all requests, drained to the end; several results (seeds) are pooled as one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.columns import Bools, Floats
from slidingserve.intervals import wilson
from slidingserve.sim.result import Result

ALLOWED_MISSES = 0.01
"""The share of requests that may miss at goodput."""
_PERCENTILES = (50, 95, 99)


class Tally(NamedTuple):
    """Misses of one class, or of all requests, in one run or pooled over several."""

    requests: int
    missed: int
    missed_ttft: int
    missed_tbt: int

    def __add__(self, other: object) -> Tally:
        """Pool with another run's."""
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def share(self) -> float:
        """Of requests that missed any deadline."""
        return self.missed / self.requests if self.requests else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of `share`."""
        return wilson(self.missed, self.requests)


def tallies(result: Result) -> dict[str, Tally]:
    """By class, for classes that have requests."""
    names, of = result.trace.class_names, result.trace.slo_class
    return {
        name: _tally(result, of == index) for index, name in enumerate(names) if bool((of == index).any())
    }


def _tally(result: Result, rows: Bools) -> Tally:
    columns = (result.missed, result.missed_ttft, result.missed_tbt)
    return Tally(int(rows.sum()), *(int(column[rows].sum()) for column in columns))


def pooled(parts: Sequence[dict[str, Tally]]) -> dict[str, Tally]:
    """Several runs as one sample."""
    total: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            total[name] = total[name] + tally if name in total else tally
    return total


def overall(by_class: dict[str, Tally]) -> Tally:
    """All classes together."""
    return sum(by_class.values(), start=Tally(0, 0, 0, 0))


def within_goodput(by_class: dict[str, Tally], criterion: str, allowed: float = ALLOWED_MISSES) -> bool:
    """At most the allowed share misses: of all requests ("overall"), or of every class ("per_class")."""
    judged = [overall(by_class)] if criterion == "overall" else list(by_class.values())
    return all(tally.missed <= allowed * tally.requests for tally in judged)


def summary(result: Result) -> dict[str, Any]:
    """One run as a JSON object: attainment and violations by class, percentiles, counters, predictor."""
    of = result.trace.slo_class
    classes = {}
    for index, name in enumerate(result.trace.class_names):
        rows = of == index
        if rows.any():
            classes[name] = _group(result, rows)
    counters = result.counters
    return {
        "overall": _group(result, np.ones(len(of), np.bool_)),
        "classes": classes,
        "iterations": counters.iterations,
        "seconds": counters.seconds,
        "preemptions": counters.preemptions,
        "prefix_hit_share": counters.hit_tokens / counters.prompt_tokens if counters.prompt_tokens else 0.0,
        "plan_errors": counters.plan_errors,
        "relegated": int(result.relegated.sum()),
        "predictor": {scene: quality._asdict() for scene, quality in result.quality.items()},
    }


def _group(result: Result, rows: Bools) -> dict[str, Any]:
    tally = _tally(result, rows)
    low, high = tally.interval
    count = tally.requests
    return {
        **tally._asdict(),
        "attainment": 1 - tally.share,
        "attainment_ttft": 1 - tally.missed_ttft / count,
        "attainment_tbt": 1 - tally.missed_tbt / count,
        "violations_percent": 100 * tally.share,
        "violations_percent_low": 100 * low,
        "violations_percent_high": 100 * high,
        **_percentiles("ttft", result.ttft[rows]),
        **_percentiles("tbt", result.gaps(rows)),
        **_percentiles("tpot", result.tpot[rows]),
        **_percentiles("longest_gap", result.longest_gap[rows]),
        **_percentiles("e2e", result.end_to_end[rows]),
    }


def _percentiles(name: str, values: Floats) -> dict[str, float]:
    return {f"{name}_p{p}_s": float(np.percentile(values, p)) if len(values) else 0.0 for p in _PERCENTILES}
