"""The promise on the client's clock: equation 1 for each token, and the latencies people compare.

Between ``replay`` and ``report``; pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slidingserve.bench.client import Result
from slidingserve.bench.workload import Promise
from slidingserve.intervals import wilson

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which objectives a request kept; ``request`` is both."""

    ttft: bool
    tbt: bool

    @property
    def request(self) -> bool:
        """Whether every token was in time."""
        return self.ttft and self.tbt


def judge(result: Result, promise: Promise) -> Verdict:
    """Equation 1: token k (from 0) is due at sent + ttft + k * tbt; a late token moves no later deadline.

    A request that failed or was cut misses both.
    """
    if not result.ok or not result.token_times:
        return Verdict(False, False)
    times = np.asarray(result.token_times)
    due = promise.ttft + promise.tbt * np.arange(times.size)
    late = times > due
    return Verdict(ttft=not bool(late[0]), tbt=not bool(late[1:].any()))


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One class of a run.  Latencies in ms by percentile, empty where nothing was measured."""

    slo_class: str
    requests: int
    ok: int
    good: int | None
    ttft_ms: dict[str, float]
    tbt_ms: dict[str, float]
    tpot_ms: dict[str, float]
    e2e_ms: dict[str, float]
    promised: int = 0
    """How many of the requests were promised anything."""

    @property
    def attainment(self) -> float | None:
        """Good requests over those promised; None without a promise."""
        return None if self.good is None or not self.promised else self.good / self.promised

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the attainment."""
        return None if self.good is None else wilson(self.good, self.promised)

    def row(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "slo_class": self.slo_class,
            "requests": self.requests,
            "ok": self.ok,
            "good": self.good,
            "promised": self.promised,
            "attainment": self.attainment,
            "interval": self.interval,
            "ttft_ms": self.ttft_ms,
            "tbt_ms": self.tbt_ms,
            "tpot_ms": self.tpot_ms,
            "e2e_ms": self.e2e_ms,
        }


Promises = Mapping[str, Promise]
"""By class, for requests that bring no promise of their own."""

_NONE: Promises = {}


def verdict(result: Result, promises: Promises = _NONE) -> Verdict | None:
    """The verdict by the request's own promise, else its class's; None if nothing was promised."""
    promise = result.promise or promises.get(result.slo_class or "")
    return None if promise is None else judge(result, promise)


def by_class(results: Sequence[Result], promises: Promises = _NONE) -> list[ClassScore]:
    """Scores in the order in which the classes first appear; every request sent is in the denominator."""
    classes = list(dict.fromkeys(result.slo_class or "(default)" for result in results))
    return [
        score([r for r in results if (r.slo_class or "(default)") == name], name, promises)
        for name in classes
    ]


def score(results: Sequence[Result], name: str, promises: Promises = _NONE) -> ClassScore:
    """Score one class; latencies come from the requests that succeeded."""
    done = [result for result in results if result.ok and result.token_times]
    times = [np.asarray(result.token_times) for result in done]
    gaps = [np.diff(t) for t in times if t.size > 1]
    verdicts = [found for result in results if (found := verdict(result, promises)) is not None]
    return ClassScore(
        slo_class=name,
        requests=len(results),
        ok=len(done),
        good=sum(found.request for found in verdicts) if verdicts else None,
        ttft_ms=percentiles([float(t[0]) for t in times]),
        tbt_ms=percentiles(np.concatenate(gaps) if gaps else []),
        tpot_ms=percentiles([float(gap.mean()) for gap in gaps]),
        e2e_ms=percentiles([float(t[-1]) for t in times]),
        promised=len(verdicts),
    )


def record(result: Result, promises: Promises = _NONE) -> dict[str, Any]:
    """A request as JSON: what was sent, what came when (s), its limits, and which of them it missed."""
    found = verdict(result, promises)
    times = np.asarray(result.token_times)
    gaps = np.diff(times)
    return asdict(result) | {
        "missed_ttft": None if found is None else not found.ttft,
        "missed_tbt": None if found is None else not found.tbt,
        "ttft_s": float(times[0]) if times.size else None,
        "tpot_s": float(gaps.mean()) if gaps.size else None,
        "longest_gap_s": float(gaps.max()) if gaps.size else None,
    }


def percentiles(seconds: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    """{"p50": ms, "p95": ms, "p99": ms} of durations in seconds; empty for none."""
    if len(seconds) == 0:
        return {}
    values = np.percentile(np.asarray(seconds, dtype=float) * 1000, PERCENTILES)
    return {f"p{p}": round(float(value), 3) for p, value in zip(PERCENTILES, values, strict=True)}
