"""What each request is held to: its promise, read once and never trusted, as a row of columns.

The row is kept on vLLM's `Request` itself; the columns hold what does not change from step to step, so that a
round gathers it by row instead of asking every request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from slidingserve.server.promise import KEY

ATTRIBUTE = "slidingserve_held"
_LONGEST = 86_400.0 * 365
_FIRST_SIZE = 1024
NEVER = -1


class Promise(NamedTuple):
    """What one request is held to; times in seconds, `arrival` on the monotonic clock of this process."""

    arrival: float
    ttft: float
    tbt: float
    safeguard: bool


Default = Callable[[int], tuple[float, float, bool]]
"""Prompt tokens to (L_ttft, L_tbt, safeguard) of the default class."""


class Held:
    """The tie between a request and its row. One an engine request, never shared."""

    __slots__ = ("params", "queued", "row")

    def __init__(self, row: int, params: Any) -> None:
        self.row = row
        self.params = params
        """The sampling parameters it was read from: a streaming session brings new ones, which are read
        anew."""
        self.queued = NEVER
        """The epoch of the table in which its tokens were noted as those of a waiting request."""


class Table:
    """The columns, by row; a row is used again when its request is gone."""

    def __init__(self, default: Default) -> None:
        self._default = default
        self._free = list(range(_FIRST_SIZE))
        self.arrival = np.zeros(_FIRST_SIZE)
        """a of equation 1."""
        self.ttft = np.zeros(_FIRST_SIZE)
        """L_ttft."""
        self.tbt = np.zeros(_FIRST_SIZE)
        """L_tbt."""
        self.safeguard = np.zeros(_FIRST_SIZE, np.bool_)
        """g of equation 12."""
        self.relegated = np.zeros(_FIRST_SIZE, np.bool_)
        """What a plan relegated: sticky for the life of the request, preempted or not."""
        self.total = np.zeros(_FIRST_SIZE, np.int64)
        """Of waiting requests: prompt tokens, and after a preemption output too."""
        self.computed = np.zeros(_FIRST_SIZE, np.int64)
        """Of waiting requests: tokens in the KV cache."""
        self.outputs = np.zeros(_FIRST_SIZE, np.int64)
        """Of waiting requests: tokens delivered, k of equation 1."""
        self.epoch = 0
        """Counts the times at which somebody else may have moved requests from queue to queue."""

    def hold(self, request: Any, everyone: Iterable[Any]) -> Held:
        """The tie of a request that has none, or whose sampling parameters are new.

        `everyone` that the engine knows: asked when rows run out. Missing or odd metadata gives the default
        promise: nothing that a client sends may raise in the scheduler.
        """
        held: Held | None = getattr(request, ATTRIBUTE, None)
        if held is None:
            held = Held(self._row(everyone), request.sampling_params)
            self.relegated[held.row] = False
            setattr(request, ATTRIBUTE, held)
        held.params, held.queued = request.sampling_params, NEVER
        promise = read(request, self._default)
        row = held.row
        self.arrival[row], self.ttft[row], self.tbt[row], self.safeguard[row] = promise
        return held

    def queue(self, request: Any, held: Held) -> None:
        """Note the tokens of a request that waits: nothing changes them until it runs."""
        row = held.row
        self.total[row] = request.num_tokens
        self.computed[row] = request.num_computed_tokens
        self.outputs[row] = request.num_output_tokens
        held.queued = self.epoch

    def _row(self, everyone: Iterable[Any]) -> int:
        if not self._free:
            used = {held.row for one in everyone if (held := getattr(one, ATTRIBUTE, None)) is not None}
            size = len(self.arrival)
            self._free = [row for row in range(size) if row not in used]
            if len(self._free) < size // 4:
                self._free += range(size, 2 * size)
                for name, column in vars(self).items():
                    if isinstance(column, np.ndarray):
                        setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        return self._free.pop()


def read(request: Any, default: Default) -> Promise:
    """The promise that the front end wrote into a request, else that of the default class."""
    extra = getattr(request.sampling_params, "extra_args", None) or {}
    promise = extra.get(KEY) if isinstance(extra, dict) else None
    fields = promise if isinstance(promise, dict) else {}
    ttft, tbt = _limit(fields.get("ttft_s")), _limit(fields.get("tbt_s"))
    safeguard = fields.get("safeguard") is True
    if ttft is None or tbt is None:
        ttft, tbt, safeguard = default(request.num_prompt_tokens)
    wall = fields.get("arrival")
    if not isinstance(wall, float) or not math.isfinite(wall):
        wall = request.arrival_time
    return Promise(_monotonic(wall), ttft, tbt, safeguard)


def _monotonic(wall: float) -> float:
    """The front end's wall clock on the monotonic clock of this process; never in the future."""
    return time.monotonic() - max(time.time() - wall, 0.0)


def _limit(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LONGEST
    return float(value) if usable else None  # type: ignore[arg-type]  # `usable` says it is a number
