"""All measurements through the simulator's pool, a group at a time, the most important first.

Every run is kept in the simulator's store: a stopped benchmark goes on where it was, and what two figures
share is simulated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from rich.console import Console
from slidingserve.sim.goodput import Search
from slidingserve.sim.pool import Report, carry_out
from slidingserve.sim.progress import counted, duration, reported
from slidingserve.sim.store import Store

from benchmarks.paper import paired, simulated
from benchmarks.paper.measurements import Measurement
from benchmarks.paper.simulated import Metrics, Once

LINE_SECONDS = 60.0
"""How often a log without a terminal gets a line."""

# Relative cost of a simulated request: batches by workload, planning by policy.
_WORKLOADS = {"sharegpt": 0.6, "arxiv_v1": 1.2, "arxiv_v2": 1.8, "mixed_v1": 1.0, "mixed_v2": 1.1}
_POLICIES = {"fcfs": 0.6, "ppas": 0.6, "sarathi_edf": 0.6, "qoserve": 0.8, "slidingserve_paper": 1.0}
_RUNS_OF_A_SEARCH = {True: 5.0, False: 7.0}
"""Simulations that a search takes, on a coarse grid and on a fine one."""
_REQUESTS_SWITCHING = 2100

Start = Callable[[Measurement], float | None]
"""Where a search looks first, requests a second."""


class Runner:
    """Measures groups, and remembers how far the whole is."""

    def __init__(self, store: Store, processes: int, console: Console) -> None:
        self._store, self._processes, self._console = store, processes, console
        self._found: dict[Measurement, Metrics] = {}
        self.left = 0.0
        """Work still to come, in units of `cost`."""
        self.pace = 0.0
        """Seconds a unit, with all processes; 0 until something was measured."""
        self._worked = self._spent = 0.0

    def expect(self, measurements: Iterable[Measurement]) -> None:
        """Say how much there is. How long it takes is said when a group was measured: a short run timed
        beforehand promised 29 s for what took seven minutes, since searches, overload and workers that load
        compiled code cost what it does not show."""
        wanted = set(measurements)
        self.left = sum(map(cost, wanted))
        kept = f", {len(self._store)} runs are there from before" if len(self._store) else ""
        self._console.print(
            f"bench-paper: {len(wanted)} measurements in {counted(self._processes, 'process', 'processes')}"
            f"{kept}; the time left is told after the first group (the very first run compiles for minutes)"
        )

    def measure(self, title: str, group: Iterable[Measurement], start: Start) -> None:
        """Carry out a group; `metrics` has all of it afterwards."""
        new = [one for one in dict.fromkeys(group) if one not in self._found]
        if not new:
            return
        plans = [simulated.plan(one, start(one)) for one in new]
        with self._reported(title) as report:
            begin = monotonic()
            made = carry_out(plans, self._store, self._processes, report)
            self.note(new, made, monotonic() - begin)
        for one, done in zip(new, plans, strict=True):
            self._found[one] = simulated.rows(one, done)
        self._pair([(one, done) for one, done in zip(new, plans, strict=True) if one.kind == "errors"])
        left = f"; about {duration(self.left * self.pace)} left in all" if self.pace else ""
        self._console.print(f"{title}: done{left}")

    def __contains__(self, measurement: object) -> bool:
        return measurement in self._found

    def metrics(self, measurement: Measurement) -> Metrics:
        """What was measured. KeyError if it was not."""
        return self._found[measurement]

    def _pair(self, tested: list[tuple[Measurement, Search | Once]]) -> None:
        jobs = [done.job for _, done in tested if isinstance(done, Once)]
        qualities = paired.carry_out(jobs, self._store, self._processes)
        for (one, _), quality in zip(tested, qualities, strict=True):
            self._found[one] += simulated.errors(quality, "paired")

    def note(self, group: list[Measurement], made: int, seconds: float) -> None:
        """Learn the pace from what was simulated now; what the store had took no time and teaches nothing."""
        self.left = max(self.left - sum(map(cost, group)), 0.0)
        if made:
            self._worked += sum(map(cost, group)) * min(made / sum(map(runs, group)), 1.0)
            self._spent += seconds
            self.pace = self._spent / self._worked

    def _reported(self, title: str) -> _Lines:
        return _Lines(title, self._console)


class _Lines:
    """The simulator's bar on a terminal; a line now and then in a log."""

    def __init__(self, title: str, console: Console) -> None:
        self._title, self._console = title, console
        self._bar = reported(title, console)
        self._said = self._begin = monotonic()

    def __enter__(self) -> Report:
        return self._bar.__enter__() if self._console.is_terminal else self._line

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._bar.__exit__(*error)  # type: ignore[arg-type]

    def _line(self, made: int, left: int) -> None:
        if monotonic() - self._said > LINE_SECONDS:
            self._said = monotonic()
            seconds = (self._said - self._begin) / max(made, 1) * left
            self._console.print(f"{self._title}: {made} runs, about {duration(seconds)} left of this part")


def cost(measurement: Measurement) -> float:
    """Expected work, in requests of mixed-v1 under the paper's policy."""
    switching = measurement.kind == "load" and measurement.qps is None
    requests = _REQUESTS_SWITCHING if switching else measurement.requests
    factor = _WORKLOADS.get(measurement.where.workload, 1.0) * _POLICIES.get(measurement.policy, 1.0)
    return runs(measurement) * requests * factor


def runs(measurement: Measurement) -> float:
    """Simulations that it takes, about."""
    return _RUNS_OF_A_SEARCH[measurement.tolerance > 0.03] if measurement.kind == "goodput" else 1.0
