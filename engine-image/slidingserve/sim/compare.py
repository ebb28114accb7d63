"""Several engines on the same arrivals at the same rates, so that differences are theirs and not chance's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slidingserve.sim.jobs import Job, Summary, missed, tallies
from slidingserve.sim.metrics import Tally, overall, pooled

_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Cell:
    """One engine at one rate, all seeds pooled."""

    name: str
    qps: float
    runs: list[Summary]

    @property
    def tallies(self) -> dict[str, Tally]:
        """Misses by class."""
        return pooled([tallies(run) for run in self.runs])

    def less_violations_than(self, other: Cell) -> tuple[float, float, float]:
        """Violations of `other` less this one's, in percent of the requests, with the 95 % interval of
        pairs."""
        ours = np.concatenate([missed(run) for run in self.runs])
        theirs = np.concatenate([missed(run) for run in other.runs])
        saved, lost = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
        count = len(ours)
        share = (saved - lost) / count
        error = math.sqrt(max(saved + lost - count * share * share, 0.0)) / count
        return 100 * share, 100 * (share - _Z95 * error), 100 * (share + _Z95 * error)

    def to_json(self, base: Cell) -> dict[str, Any]:
        """As a JSON object, with its difference to `base`."""
        everybody = overall(self.tallies)
        low, high = everybody.interval
        gain, gain_low, gain_high = self.less_violations_than(base)
        pooled_runs = [run["overall"] for run in self.runs]
        latencies = {
            key: float(np.mean([run[key] for run in pooled_runs]))
            for key in pooled_runs[0]
            if key.endswith("_s")
        }
        return {
            "policy": self.name,
            "qps": self.qps,
            "requests": everybody.requests,
            "violations_percent": 100 * everybody.share,
            "violations_percent_low": 100 * low,
            "violations_percent_high": 100 * high,
            "base": base.name,
            "fewer_violations_percent": gain,
            "fewer_violations_percent_low": gain_low,
            "fewer_violations_percent_high": gain_high,
            **{f"violations_percent_{name}": 100 * tally.share for name, tally in self.tallies.items()},
            **latencies,
        }


class Measure:
    """One engine at one rate: a plan for the pool."""

    def __init__(self, name: str, qps: float | None, jobs: list[Job]) -> None:
        """`qps` None: the trace's own times. `jobs`: the runs, one a seed."""
        self._name, self._qps = name, jobs[0].trace.qps if qps is None else qps
        self._jobs = jobs
        self._runs: list[Summary] = []

    def jobs(self) -> list[Job]:
        """All of its runs, once."""
        return self._jobs

    def take(self, summaries: list[Summary]) -> None:
        """Keep them."""
        self._runs, self._jobs = summaries, []

    def remaining(self) -> int:
        """Runs to go."""
        return len(self._jobs)

    @property
    def result(self) -> Cell:
        """What was measured."""
        return Cell(self._name, self._qps, self._runs)
