"""From repeated measurements to an estimate with an interval, and what that interval is.

Seeds draw arrivals and lengths; fits draw the predictor's training data. A policy without a predictor, or
measured with one fit, is summarised over its seeds; one with several fits over both, because its fits can
differ more than its seeds do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

# 0.975 quantile of Student's t by degrees of freedom; 1.96 beyond the table is 2 % too narrow at most.
_T975 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
    12: 2.179, 14: 2.145, 16: 2.120, 19: 2.093, 24: 2.064, 29: 2.045, 39: 2.023, 59: 2.001, 119: 1.980,
}  # fmt: skip
_RESAMPLES = 2000

T_INTERVAL = "mean over seeds, 95 % t-interval"
BOOTSTRAP = "median over fits, 95 % percentile bootstrap"
SINGLE = "one run, no interval"
PAIR = "two runs, no interval"
"""With one degree of freedom Student's t makes an interval 25 times as wide as the two are apart."""

Possible = tuple[float, float]
"""The least and the greatest value that a quantity can have: what an interval is cut to."""


def possible(metric: str) -> Possible:
    """Of a metric of the report: rates, times and shares are not negative, and no share is above 100 %."""
    if metric == "r2":
        return -math.inf, 1.0
    return 0.0, 100.0 if metric in ("violations_percent", "under_percent") else math.inf


class Measured(Protocol):
    """A value with the draws behind it."""

    @property
    def seed(self) -> int:
        """Draw of the workload."""
        ...

    @property
    def fit(self) -> int | None:
        """Draw of the predictor's training data."""
        ...

    @property
    def value(self) -> float:
        """The number."""
        ...


@dataclass(frozen=True)
class Estimate:
    """A summary of repeated measurements, in their unit."""

    value: float
    low: float | None
    """Lower end of the 95 % interval; None for one or two runs."""
    high: float | None
    points: tuple[float, ...]
    """One value a fit (mean over its seeds), or one a seed where there is one fit."""
    method: str

    def text(self, digits: int = 2, *, signed: bool = False) -> str:
        """ "1.70 [1.62, 1.78]"; without brackets for one or two runs."""
        form = f"{'+' if signed else ''}.{digits}f"
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of two or more independent values."""
    if len(values) < 2:
        raise ValueError("an interval needs at least two values")
    quantile = min((t for freedom, t in _T975.items() if freedom <= len(values) - 1), default=12.706)
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    middle = float(np.mean(values))
    return middle - half, middle + half


def bootstrap(table: Sequence[Sequence[float]], resamples: int = _RESAMPLES) -> tuple[float, float]:
    """95 % percentile interval of the median over fits of the mean over seeds.

    `table` has one list a fit, one value a seed. Fits and, inside each, seeds are drawn anew with
    replacement, by a fixed stream: same rows, same interval. With 3 seeds and 5 fits it is somewhat too
    narrow, as bootstraps of few draws are; the points drawn beside it are the data.
    """
    stream = np.random.default_rng(20260605)
    arrays = [np.asarray(values, float) for values in table]
    medians = np.empty(resamples)
    for i in range(resamples):
        fits = stream.integers(len(arrays), size=len(arrays))
        means = [float(stream.choice(arrays[fit], arrays[fit].size).mean()) for fit in fits]
        medians[i] = float(np.median(means))
    low, high = np.percentile(medians, (2.5, 97.5))
    return float(low), float(high)


def estimate(measured: Iterable[Measured], within: Possible = (0.0, math.inf)) -> Estimate:
    """Summarise repetitions of one experiment; one or more values, at most one a pair of seed and fit.

    Where every seed comes with a fit of its own, the fits are part of what varies from seed to seed. The
    interval is cut to what is possible (`within`), since a t-interval of few values knows no bounds.
    """
    by_fit: dict[int | None, list[float]] = {}
    seeds = set()
    for item in measured:
        by_fit.setdefault(item.fit, []).append(item.value)
        seeds.add(item.seed)
    if not by_fit:
        raise ValueError("nothing was measured")
    table = list(by_fit.values())
    values = [value for of_fit in table for value in of_fit]
    if len(table) > 1 and len(seeds) < len(values):
        points = tuple(float(np.mean(values)) for values in table)
        low, high = bootstrap(table)
        return Estimate(float(np.median(points)), low, high, points, BOOTSTRAP)
    if len(values) <= 2:
        return Estimate(float(np.mean(values)), None, None, tuple(values), (SINGLE, PAIR)[len(values) - 1])
    low, high = t_interval(values)
    least, greatest = within
    return Estimate(float(np.mean(values)), max(low, least), min(high, greatest), tuple(values), T_INTERVAL)


def gain(of: Iterable[Measured], over: Iterable[Measured]) -> Estimate | None:
    """Percent by which `of` is above `over`, seed by seed: both met the same requests, so pairs vary less
    than means do. Seeds that only one has, or on which `over` is 0, are left out; None if none is left."""
    ours, theirs = _by_seed(of), _by_seed(over)
    seeds = [seed for seed in ours if theirs.get(seed)]
    pairs = [_Pair(100 * (ours[seed] / theirs[seed] - 1), seed) for seed in seeds]
    return estimate(pairs, (-100.0, math.inf)) if pairs else None


@dataclass(frozen=True)
class _Pair:
    value: float
    seed: int
    fit: int | None = None


def _by_seed(measured: Iterable[Measured]) -> dict[int, float]:
    values: dict[int, list[float]] = {}
    for item in measured:
        values.setdefault(item.seed, []).append(item.value)
    return {seed: float(np.mean(found)) for seed, found in values.items()}
