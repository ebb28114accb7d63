"""The promise on the client's clock: equation 1 for each token, and the latencies people compare.

Between ``replay`` and ``report``; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slidingserve.bench.client import Result

PERCENTILES = (50, 95, 99)


class TargetsError(ValueError):
    """Targets that cannot be read; the text says how to write them."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Limits of a class in seconds."""

    ttft: float
    tbt: float

    @staticmethod
    def parse(text: str) -> tuple[str, Promise]:
        """Read ``CLASS=TTFT_MS/TBT_MS``; raises TargetsError."""
        try:
            name, _, limits = text.partition("=")
            ttft, tbt = (float(part) / 1000 for part in limits.split("/"))
        except ValueError as error:
            raise TargetsError(
                f"--slo {text!r}: write CLASS=TTFT_MS/TBT_MS, for example dialogue=500/40"
            ) from error
        if not name or not (0 < ttft < float("inf") and 0 < tbt < float("inf")):
            raise TargetsError(f"--slo {text!r}: needs a class and two limits above 0 ms")
        return name, Promise(ttft, tbt)


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

    @property
    def attainment(self) -> float | None:
        """Good requests over requests sent; None without a promise."""
        return None if self.good is None or not self.requests else self.good / self.requests

    def row(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "slo_class": self.slo_class,
            "requests": self.requests,
            "ok": self.ok,
            "good": self.good,
            "attainment": self.attainment,
            "ttft_ms": self.ttft_ms,
            "tbt_ms": self.tbt_ms,
            "tpot_ms": self.tpot_ms,
            "e2e_ms": self.e2e_ms,
        }


def by_class(results: Sequence[Result], promises: dict[str, Promise]) -> list[ClassScore]:
    """Scores in the order in which the classes first appear; every request sent is in the denominator."""
    classes = list(dict.fromkeys(result.slo_class or "(default)" for result in results))
    return [
        score([r for r in results if (r.slo_class or "(default)") == name], name, promises.get(name))
        for name in classes
    ]


def score(results: Sequence[Result], name: str, promise: Promise | None) -> ClassScore:
    """Score one class; latencies come from the requests that succeeded."""
    done = [result for result in results if result.ok and result.token_times]
    times = [np.asarray(result.token_times) for result in done]
    gaps = [np.diff(t) for t in times if t.size > 1]
    return ClassScore(
        slo_class=name,
        requests=len(results),
        ok=len(done),
        good=None if promise is None else sum(judge(result, promise).request for result in results),
        ttft_ms=percentiles([float(t[0]) for t in times]),
        tbt_ms=percentiles(np.concatenate(gaps) if gaps else []),
        tpot_ms=percentiles([float(gap.mean()) for gap in gaps]),
        e2e_ms=percentiles([float(t[-1]) for t in times]),
    )


def percentiles(seconds: Sequence[float] | np.ndarray[Any, Any]) -> dict[str, float]:
    """{"p50": ms, "p95": ms, "p99": ms} of durations in seconds; empty for none."""
    if len(seconds) == 0:
        return {}
    values = np.percentile(np.asarray(seconds, dtype=float) * 1000, PERCENTILES)
    return {f"p{p}": round(float(value), 3) for p, value in zip(PERCENTILES, values, strict=True)}
