"""Sends a workload at its arrival times with bounded concurrency and reports progress.

Second stage of the bench: ``workload`` in, rows of ``client.Result`` out.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from slidingserve.bench.client import Result, Target, http_client, send, unsent
from slidingserve.bench.workload import Item, of_trace
from slidingserve.workloads import Trace
from slidingserve.workloads.trace import Floats

_SPARE_FILES = 64
"""Files that the process needs beside its connections."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress bar shows: counts of requests, and seconds since the start."""

    done: int
    failed: int
    running: int
    total: int
    elapsed: float
    expected: float


Observer = Callable[[Progress], None]


class Stopped(KeyboardInterrupt):
    """An interrupt or SIGTERM; ``rows`` are those of requests that had their answer."""

    def __init__(self, rows: list[Result], number: int) -> None:
        super().__init__(number)
        self.rows = rows


class _Run:
    """State of one replay; lives on one event loop."""

    def __init__(self, items: Sequence[Item], target: Target, observer: Observer | None) -> None:
        self.items, self.target = items, target
        self.total = len(items)
        self.observer = observer
        self.results: list[Result] = []
        self.running = 0
        self.started = time.monotonic()
        self.last_arrival = max((item.arrival for item in items), default=0.0)

    async def all(self, concurrency: int) -> None:
        slots = asyncio.Semaphore(concurrency)
        try:
            client = http_client(self.target, concurrency)
        except ConnectionError as error:
            self.results = [unsent(item, str(error)) for item in self.items]
            return
        self.started = time.monotonic()
        async with client, asyncio.TaskGroup() as group:
            for item in self.items:
                group.create_task(self.one(client, item, slots))

    def rows(self) -> list[Result]:
        """What there is, in the order of the items."""
        return sorted(self.results, key=lambda result: result.index)

    async def one(self, client: httpx.AsyncClient, item: Item, slots: asyncio.Semaphore) -> None:
        await asyncio.sleep(max(0.0, self.started + item.arrival - time.monotonic()))
        async with slots:
            self.running += 1
            self.tell()
            try:
                self.results.append(await send(client, self.target, item, self.started))
            finally:
                self.running -= 1
                self.tell()

    def tell(self) -> None:
        if self.observer is not None:
            self.observer(self.progress())

    def progress(self) -> Progress:
        """Where it stands; expected is the last arrival and a mean request, or the pace so far if longer."""
        elapsed = time.monotonic() - self.started
        done = len(self.results)
        mean = sum(r.ended - r.sent for r in self.results) / done if done else 0.0
        by_pace = elapsed * self.total / done if done and elapsed > self.last_arrival else 0.0
        failed = sum(not r.ok for r in self.results)
        expected = max(self.last_arrival + mean, by_pace)
        return Progress(done, failed, self.running, self.total, elapsed, expected)


async def replay(
    items: Sequence[Item], target: Target, *, concurrency: int | None = None, observer: Observer | None = None
) -> list[Result]:
    """Send every item at its arrival and return a row for each, in the order of the items.

    Items whose turn comes while ``concurrency`` requests are open (None: as many as this process may) wait
    for a slot; ``Result.sent`` minus ``arrival`` shows it.  The clock of a request starts when it is sent.
    """
    run = _Run(items, target, observer)
    await run.all(concurrency or most_open_files(len(items)))
    return run.rows()


def replay_now(
    items: Sequence[Item], target: Target, *, concurrency: int | None = None, observer: Observer | None = None
) -> list[Result]:
    """`replay` where no loop runs yet. Raises Stopped at an interrupt, with what was measured."""
    run = _Run(items, target, observer)

    async def until_told() -> None:
        # Ctrl-C is asyncio's own affair: it cancels this task as well.
        work = asyncio.current_task()
        if work and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel, "SIGTERM")
        await run.all(concurrency or most_open_files(len(items)))

    try:
        asyncio.run(until_told())
    except asyncio.CancelledError:
        raise Stopped(run.rows(), signal.SIGTERM) from None
    except KeyboardInterrupt:
        raise Stopped(run.rows(), signal.SIGINT) from None
    return run.rows()


def most_open_files(wanted: int) -> int:
    """How many connections this process may have open, up to ``wanted``; raises its own soft limit for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    needed = wanted + _SPARE_FILES
    if soft != unlimited and soft < needed:
        soft = needed if hard == unlimited else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, wanted if soft == unlimited else soft - _SPARE_FILES))


def replay_trace(
    trace: Trace,
    ttft: Floats | None,
    tbt: Floats | None,
    target: Target,
    *,
    concurrency: int | None = None,
    observer: Observer | None = None,
) -> list[Result]:
    """Send a whole trace with its promises (s, shape n; `workloads.slo.promises`), wait for the last answer.

    One row a request, in the trace's order; ``score.record`` makes JSON of a row with its verdict,
    ``score.by_class`` and ``summary.summary`` figures of all. Prompts depend on ``target.seed`` alone, so
    that two policies get the same bytes.
    """
    items = of_trace(trace, ttft, tbt)
    return replay_now(items, target, concurrency=concurrency, observer=observer)
