"""The kinds of experiment and their conditions: plain data. Rates are requests a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.paper.options import SLIDING, Options

Criterion = Literal["overall", "per_class"]
CRITERIA: tuple[Criterion, ...] = ("overall", "per_class")

Draws = tuple[tuple[int, int | None], ...]
"""Pairs of a seed and a fit; no fit for a policy that predicts nothing."""

SLO_BASE_MS = 60.0


@dataclass(frozen=True)
class Where:
    """Conditions of an experiment; what is None is the hardware profile's own."""

    model: str
    hardware: str
    workload: str
    slo_base_ms: float = SLO_BASE_MS
    noise: float | None = None
    link: tuple[float, float] | None = None
    """All-reduce: seconds, and bytes a second."""
    host: float | None = None
    """Seconds a step on the host."""
    async_scheduling: bool = False


@dataclass(frozen=True)
class Search:
    """Goodput of a policy; a row for each seed and fit."""

    figure: str
    where: Where
    policy: str
    criterion: Criterion
    draws: Draws
    setting: Options | None = None
    """None: the chosen one."""
    change: Options = ()
    variant: str = ""
    stage: Literal["choose", "report"] = "report"


@dataclass(frozen=True)
class Load:
    """One rate, or Figure 6's switching load: latencies and misses."""

    figure: str
    where: Where
    policy: str
    draws: Draws
    qps: float | None
    """None: the switching load."""
    change: Options = ()
    variant: str = ""


@dataclass(frozen=True)
class Fidelity:
    """The predictor's error on the batches of runs at a rate."""

    where: Where
    qps: float
    draws: Draws
    change: Options = ()
    figure: str = "table5"
    policy: str = SLIDING


Experiment = Search | Load | Fidelity
