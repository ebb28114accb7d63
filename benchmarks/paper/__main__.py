"""`make bench-paper`: the paper's Figures 4, 5, 6 and Tables 4, 5, and what explains the differences.

QUICK=1: a few minutes, shapes only. ONLY=figure4,table5: a part. REQUESTS=500: shorter runs. PROCESSES=1.
Stop it at any time: it goes on where it was. Writes build/bench-paper (build/bench-paper-quick).
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from slidingserve.report import paper

from benchmarks.paper import jobs, output, plan, runner
from benchmarks.paper.jobs import Job, Measurement
from benchmarks.paper.plan import Scale
from benchmarks.paper.store import Metrics, Store

BUILD = Path(__file__).resolve().parent.parent.parent / "build"
FIGURES = ("figure4", "figure5", "figure6", "table4", "table5", "readings", "slo_base", "explain")


class SettingError(Exception):
    """A setting from outside that cannot be used; the message is one line."""


def main() -> int:
    """Choose settings, measure everything, write the results."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        scale, only, processes = _settings(dict(os.environ))
    except SettingError as error:
        console.print(f"bench-paper: {error}")
        return 2
    out = BUILD / ("bench-paper-quick" if scale.quick else "bench-paper")
    bench = Bench(scale, only, processes, Store(out / "measurements.jsonl"), console)
    try:
        made = bench.measured()
    except KeyboardInterrupt:
        console.print("bench-paper: stopped; the same command goes on where it was")
        return 130
    for name in output.write(output.document(made, scale), out):
        console.print(f"{name}: left out of the report, no rows")
    console.print(f"wrote results.json, results.csv, table.md and report/index.html below {out}")
    return 0


class Bench:
    """One call of the command."""

    def __init__(
        self, scale: Scale, only: tuple[str, ...], processes: int, store: Store, console: Console
    ) -> None:
        self._scale, self._only, self._store, self._console = scale, only, store, console
        self._processes = processes
        needed = [experiment for experiment in plan.experiments(scale) if experiment.figure in only]
        places = {(experiment.where.model, experiment.where.workload) for experiment in needed}
        self._choosing = [
            job
            for search in plan.choices(scale)
            if (search.where.model, search.where.workload) in places
            for job in jobs.jobs(search, {}, scale)
        ]
        self._needed = needed

    def measured(self) -> list[dict[str, Any]]:
        """All rows; from the store what is there."""
        self._say_how_long()
        self._run(self._choosing, "settings")
        chosen = jobs.choose((job, self._goodput(job)) for job in self._choosing)
        reported = self._reported(chosen)
        self._run(reported, "results")
        return output.rows((job, self._found(job)) for job in (*self._choosing, *reported))

    def _reported(self, chosen: jobs.Choices) -> list[Job]:
        return [job for experiment in self._needed for job in jobs.jobs(experiment, chosen, self._scale)]

    def _run(self, wanted: list[Job], title: str) -> None:
        runner.run(
            jobs.unique(wanted),
            self._store,
            self._start,
            processes=self._processes,
            title=title,
            console=self._console,
        )

    def _found(self, job: Job) -> Metrics:
        found = self._store.get(job.measurement)
        if found is None:
            raise KeyError(f"{job.measurement} was not measured")
        return found

    def _goodput(self, job: Job) -> float:
        return next(float(item["value"]) for item in self._found(job) if item["metric"] == "goodput_qps")

    def _start(self, measurement: Measurement) -> float | None:
        """Where a search may end: what the choosing found for that policy there, else the paper's EDF."""
        where = measurement.where
        same = [
            item[0]["value"]
            for job in self._choosing
            if job.measurement.policy == measurement.policy
            and job.measurement.where == where
            and (item := self._store.get(job.measurement))
        ]
        return max(same, default=0.0) or paper.figure4(where.model, where.workload, "sarathi_edf")

    def _say_how_long(self) -> None:
        """Time a short run and say what the whole will take. The first run of all compiles the simulator."""
        pace = runner.seconds_per_request()
        todo = jobs.unique([*self._choosing, *self._reported({})])
        rest = sum(runner.cost(one) for one in todo if self._store.get(one) is None)
        minutes = rest * pace / 60 / self._processes
        length = f"about {minutes:.0f} minutes with {self._processes} processes"
        self._console.print(f"bench-paper: {len(todo)} measurements, {length}")


def _settings(environment: dict[str, str]) -> tuple[Scale, tuple[str, ...], int]:
    """QUICK, ONLY, REQUESTS and PROCESSES. Raises SettingError."""
    scale = plan.QUICK if environment.get("QUICK", "") not in ("", "0") else plan.FULL
    only = tuple(filter(None, environment.get("ONLY", "").split(","))) or FIGURES
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise SettingError(f"ONLY={','.join(unknown)} is none of {', '.join(FIGURES)}")
    scale = replace(scale, requests=_count(environment, "REQUESTS", 100, scale.requests))
    return scale, only, _count(environment, "PROCESSES", 1, 2)


def _count(environment: dict[str, str], name: str, least: int, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or int(text) < least:
        raise SettingError(f"{name}={text} is no count; give {least} or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
