"""Keyed queue between the watches and `reconcile`: one worker a key, adds coalesce, failures back off.

Filled by `handlers`, `resync` and the workers themselves; drained by the workers that `app` starts.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

from . import backoff
from .cache import Key

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 300.0
HEAD_START_SECONDS = 200.0
"""Of an event over a look that is only due: damage is repaired at once, however late the looks are. Below the
time after which /livez fails, so that events alone cannot make it fail."""


class KeyedQueue:
    """Keys with the time at which each is due. A key in work is never handed out twice."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._due: dict[Key, float] = {}
        self._active: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._events: set[Key] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: Key, delay: float = 0.0, *, event: bool = False) -> None:
        """Ask for a look at `key` in `delay` seconds; the earlier of two requests holds.

        `event`: something happened to it, which comes before looks that are only due.
        """
        if event:
            self._events.add(key)
        due = self._clock() + delay
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._wake.set()

    def take(self) -> Key | None:
        """The key that is due longest (an event's has a head start), now in work; None if there is none."""
        now = self._clock()
        ready = [key for key, due in self._due.items() if due <= now and key not in self._active]
        if not ready:
            return None
        key = min(ready, key=lambda k: (self._due[k] - HEAD_START_SECONDS * (k in self._events), k))
        del self._due[key]
        self._events.discard(key)
        self._active[key] = now
        return key

    async def get(self) -> Key:
        """Wait for `take`."""
        while (key := self.take()) is None:
            self._wake.clear()
            waiting = [due for k, due in self._due.items() if k not in self._active]
            pause = max(0.0, min(waiting) - self._clock()) if waiting else None
            # Not wait_for: Python 3.11's takes a cancellation for a wake-up if both come at once.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
        return key

    def done(self, key: Key, again: float | None = None) -> None:
        """The work on `key` succeeded; look again in `again` seconds, or only on the next event."""
        self._failures.pop(key, None)
        self._release(key)
        if again is not None:
            self.add(key, again)

    def failed(self, key: Key, at_least: float = 0.0) -> float:
        """The work on `key` failed: look again after a growing pause, which is returned in seconds.

        `at_least`: seconds for which the API server asked to be left alone.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        spread = 0.75 + self._jitter() / 2
        again = max(at_least, backoff.pause(count - 1, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS) * spread)
        self._release(key)
        self.add(key, again)
        return again

    def _release(self, key: Key) -> None:
        self._active.pop(key, None)
        self._wake.set()

    async def rest(self) -> None:
        """Wait until nothing is in work."""
        while self._active:
            self._wake.clear()
            await self._wake.wait()

    def oldest_seconds(self) -> float:
        """Age of the longest overdue or longest running work; 0 when all is in time."""
        now = self._clock()
        times = [due for due in self._due.values() if due <= now] + list(self._active.values())
        return now - min(times) if times else 0.0

    def waiting(self) -> int:
        """How many keys are due and not yet in work."""
        now = self._clock()
        return sum(due <= now for due in self._due.values())

    def failing(self) -> int:
        """How many keys are tried again because the last work on them failed."""
        return len(self._failures)
