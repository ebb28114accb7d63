"""Sends a workload at its arrival times with bounded concurrency and reports progress.

Second stage of the bench: ``workload`` in, rows of ``client.Result`` out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from slidingserve.bench.client import Result, Target, http_client, send
from slidingserve.bench.workload import Item


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


class _Run:
    """State of one replay; lives on one event loop."""

    def __init__(self, items: Sequence[Item], target: Target, observer: Observer | None) -> None:
        self.target = target
        self.total = len(items)
        self.observer = observer
        self.results: list[Result] = []
        self.running = 0
        self.started = time.monotonic()
        self.last_arrival = max((item.arrival for item in items), default=0.0)

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
    items: Sequence[Item], target: Target, *, concurrency: int = 256, observer: Observer | None = None
) -> list[Result]:
    """Send every item at its arrival and return a row for each, in the order of the items.

    Items whose turn comes while ``concurrency`` requests are open wait for a slot; ``Result.sent`` minus
    ``arrival`` shows it.  The clock of a request starts when it is sent.
    """
    run = _Run(items, target, observer)
    slots = asyncio.Semaphore(concurrency)
    async with http_client(target, concurrency) as client, asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(run.one(client, item, slots))
    return sorted(run.results, key=lambda result: result.index)
