"""Measurements in worker processes: what the store has is not made again; progress says how long it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from slidingserve.report import paper

from benchmarks.paper.jobs import Measurement
from benchmarks.paper.measure import measure
from benchmarks.paper.options import SLIDING
from benchmarks.paper.plan import here
from benchmarks.paper.store import Metrics, Store

LINE_SECONDS = 30.0
"""How often a log without a terminal gets a line."""

# Relative cost of a simulated request: iterations by workload, planning by policy.
_WORKLOADS = {"sharegpt": 0.6, "arxiv_v1": 1.6, "arxiv_v2": 2.4, "mixed_v1": 1.0, "mixed_v2": 1.2}
_POLICIES = {"fcfs": 0.6, "ppas": 0.6, "sarathi_edf": 0.6, "qoserve": 0.8, "slidingserve_paper": 1.0}
_RUNS_OF_A_SEARCH = {True: 5.0, False: 7.0}
"""Simulations that a search takes, on a coarse grid and on a fine one."""
_REQUESTS_SWITCHING = 2100
_TRIAL_REQUESTS = 300


def cost(measurement: Measurement) -> float:
    """Expected work, in requests of mixed-v1 under the paper's policy."""
    runs = _RUNS_OF_A_SEARCH[measurement.tolerance > 0.03] if measurement.kind == "goodput" else 1.0
    switching = measurement.kind == "load" and measurement.qps is None
    requests = _REQUESTS_SWITCHING if switching else measurement.requests
    factor = _WORKLOADS.get(measurement.where.workload, 1.0) * _POLICIES.get(measurement.policy, 1.0)
    return runs * requests * factor


def seconds_per_request() -> float:
    """What a unit of `cost` takes here: a short run, timed after a first one has loaded the code."""
    trial = Measurement("load", here(paper.QWEN, "mixed_v1"), SLIDING, (), 1, 1, _TRIAL_REQUESTS, 1.5)
    measure(trial)
    return _timed(trial, None)[1] / _TRIAL_REQUESTS


def run(
    wanted: Sequence[Measurement],
    store: Store,
    start: Callable[[Measurement], float | None],
    *,
    processes: int,
    title: str,
    console: Console,
) -> None:
    """Measure what the store lacks, most important first; the store has all of `wanted` afterwards."""
    missing = [measurement for measurement in wanted if store.get(measurement) is None]
    with _meter(console, title, wanted, missing) as advance:
        for measurement, metrics, seconds in _results(missing, start, processes):
            store.put(measurement, metrics, seconds)
            advance(measurement)


def _results(
    missing: Sequence[Measurement], start: Callable[[Measurement], float | None], processes: int
) -> Iterator[tuple[Measurement, Metrics, float]]:
    """Results as they come. A few jobs wait in the pool, so that an interrupt ends soon."""
    if not missing:
        return
    todo = iter(missing)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_worker) as pool:
        running: dict[Future[tuple[Metrics, float]], Measurement] = {}
        try:
            while True:
                for measurement in todo:
                    running[pool.submit(_timed, measurement, start(measurement))] = measurement
                    if len(running) > processes:
                        break
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), *future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _worker() -> None:
    """Workers are polite: the machine may be shared."""
    os.nice(5)


def _timed(measurement: Measurement, start: float | None) -> tuple[Metrics, float]:
    begin = monotonic()
    return measure(measurement, start), monotonic() - begin


@contextmanager
def _meter(
    console: Console, title: str, wanted: Sequence[Measurement], missing: Sequence[Measurement]
) -> Iterator[Callable[[Measurement], None]]:
    """A bar on a terminal, a line now and then in a log; both by expected work, not by count."""
    total, kept = sum(map(cost, missing)), len(wanted) - len(missing)
    begin, done, count, said = monotonic(), 0.0, 0, monotonic()

    def left() -> str:
        seconds = (monotonic() - begin) * (total - done) / done if done else 0.0
        return f"about {seconds / 60:.0f} min left" if done else "..."

    columns = (
        *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
        *(TextColumn("{task.fields[note]}"), TimeElapsedColumn()),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total or 1.0, completed=int(not total), note="...")

        def advance(measurement: Measurement) -> None:
            nonlocal done, count, said
            done, count = done + cost(measurement), count + 1
            note = f"{count + kept}/{len(wanted)}, {left()}"
            bar.update(task, completed=done, note=note)
            if not console.is_terminal and (monotonic() - said > LINE_SECONDS or count == len(missing)):
                said = monotonic()
                console.print(f"{title}: {note}")

        if kept:
            console.print(f"{title}: {kept} of {len(wanted)} measurements are there from before")
        yield advance
