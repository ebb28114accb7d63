"""The highest rate that an engine holds: at most 1 % of requests miss, overall or in every class.

A search doubles and halves its way to two neighbouring rates of a fixed grid, one that holds and one that
does not. The grid is the same for every policy and seed, so that all are judged at the same rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from slidingserve.sim.config import SimError
from slidingserve.sim.jobs import Job, Summary, tallies
from slidingserve.sim.metrics import Tally, overall, pooled, within_goodput

Criterion = Literal["overall", "per_class"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
TOLERANCE = 0.02
LOWEST, HIGHEST = 0.01, 1000.0
"""No search looks beyond these rates, requests a second."""
_FIRST_STRIDE = 0.25

JobsAt = Callable[[float], list[Job]]
"""The runs (one a seed) that judge a rate."""


@dataclass(frozen=True)
class Goodput:
    """What a search found."""

    qps: float
    """The highest rate of the grid that holds; 0: not even the lowest does."""
    above: float | None
    """The next rate, which does not hold; None: even the highest holds."""
    criterion: Criterion
    at: dict[str, Tally]
    """Misses by class at `qps`, all seeds pooled; empty if nothing holds."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        everybody = overall(self.at)
        low, high = everybody.interval if self.at else (None, None)
        return {
            "goodput_qps": self.qps,
            "fails_at_qps": self.above,
            "criterion": self.criterion,
            "requests": everybody.requests,
            "violations_percent": 100 * everybody.share if self.at else None,
            "violations_percent_low": None if low is None else 100 * low,
            "violations_percent_high": None if high is None else 100 * high,
            "classes": {name: 100 * tally.share for name, tally in self.at.items()},
        }


class Search:
    """The search of one engine: a plan for the pool."""

    def __init__(
        self, jobs_at: JobsAt, *, criterion: Criterion = "overall", tolerance: float = TOLERANCE,
        start: float = 1.0,
    ) -> None:  # fmt: skip
        """`start`: where to look first, requests a second. Raises SimError for a tolerance that is none."""
        if not 0.001 <= tolerance <= 0.5:
            raise SimError(f"tolerance: {tolerance:g} is no relative width; give a number from 0.001 to 0.5")
        self._jobs_at, self._criterion, self._tolerance = jobs_at, criterion, tolerance
        self._bottom, self._top = self._step_of(LOWEST) + 1, self._step_of(HIGHEST)
        self._step = min(max(self._step_of(start), self._bottom), self._top)
        self._stride = max(1, self._step_of(1 + _FIRST_STRIDE))
        self._holds: int | None = None
        self._fails: int | None = None
        self._at: dict[str, Tally] = {}
        self._runs = 1

    def jobs(self) -> list[Job]:
        """The runs of the rate that is judged now."""
        if self._done:
            return []
        jobs = self._jobs_at(self._rate(self._step))
        self._runs = len(jobs)
        return jobs

    def take(self, summaries: list[Summary]) -> None:
        """Judge the rate, and choose the next."""
        judged = pooled([tallies(summary) for summary in summaries])
        if within_goodput(judged, self._criterion):
            self._holds, self._at = self._step, judged
        else:
            self._fails = self._step
        self._step = self._next()

    def remaining(self) -> int:
        """Runs to go, roughly until both sides are known."""
        if self._done:
            return 0
        if self._holds is None or self._fails is None:
            return self._runs * (2 + math.ceil(math.log2(max(self._stride, 2))))
        return self._runs * math.ceil(math.log2(self._fails - self._holds))

    @property
    def result(self) -> Goodput:
        """What was found, once there are no more jobs."""
        qps = 0.0 if self._holds is None else self._rate(self._holds)
        above = None if self._fails is None else self._rate(self._fails)
        return Goodput(qps, above, self._criterion, self._at)

    @property
    def _done(self) -> bool:
        if self._holds is None:
            return self._fails is not None and self._fails <= self._bottom
        if self._fails is None:
            return self._holds >= self._top
        return self._fails - self._holds <= 1

    def _next(self) -> int:
        if self._holds is not None and self._fails is not None:
            return (self._holds + self._fails) // 2
        stride, self._stride = self._stride, 2 * self._stride
        if self._fails is None:
            return min(self._step + stride, self._top)
        return max(self._step - stride, self._bottom)

    def _rate(self, step: int) -> float:
        return float((1 + self._tolerance) ** step)

    def _step_of(self, qps: float) -> int:
        return math.floor(math.log(qps) / math.log1p(self._tolerance) + 1e-9)
