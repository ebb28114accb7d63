"""How long each batch really took, and when the work in flight will end.

One formula serves both modes: t_done(N) - max(t_done(N-1), t_sched(N)). Without asynchronous scheduling
nothing is in flight at t_sched, and it is the plain difference; with it, batch N waits for batch N-1 first.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from slidingserve.predictor.features import Features


class Batch(NamedTuple):
    """A batch that was handed to the workers."""

    output: Any
    """vLLM's SchedulerOutput; the same object comes back with the result."""
    features: Features
    predicted: float
    scheduled: float
    """When schedule() ended, monotonic seconds."""


class BatchClock:
    """First in, first out, as vLLM's batch queue is."""

    def __init__(self) -> None:
        self._flight: deque[Batch] = deque()
        self._done = 0.0

    def scheduled(self, batch: Batch) -> None:
        """A batch with at least one token leaves for the workers."""
        self._flight.append(batch)

    def done(self, output: Any, now: float) -> tuple[Batch, float] | None:
        """The result of a batch arrived: the batch and its measured seconds; None for one that was never
        entered.

        Batches that never came back (an engine that dropped them) are forgotten on the way.
        """
        if not any(batch.output is output for batch in self._flight):
            return None
        while True:
            batch = self._flight.popleft()
            if batch.output is output:
                break
        seconds = now - max(self._done, batch.scheduled)
        self._done = now
        return batch, seconds

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._flight

    def idle_at(self, now: float) -> float:
        """The predicted end of the work in flight, at least `now`."""
        if not self._flight:
            return now
        start = max(self._done, self._flight[0].scheduled)
        return max(now, start + sum(batch.predicted for batch in self._flight))
