"""What each request is held to: its promise, read once and never trusted, as a row of columns (`Held`).

A request carries the number of its row; the columns hold what does not change from step to step, so
that `observe` gathers it by row instead of asking every request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.columns import Ints
from slidingserve.server.promise import KEY
from slidingserve.vllm_adapter.assemble import Held, match

# Attributes that we put on vLLM's requests.
ROW = "slidingserve_row"
PARAMS = "slidingserve_params"
"""The sampling parameters that the promise was read from: a streaming session brings new ones."""
NONE = -1
"""No row."""
_LONGEST = 86_400.0 * 365
_MOST_TOKENS = 1 << 53
"""A client may write more, and a column of 64 bits does not hold all that it may."""
_FIRST_SIZE = 1024


class Promise(NamedTuple):
    """What one request is held to; times in seconds, `arrival` on the monotonic clock of this process."""

    arrival: float
    ttft: float
    tbt: float
    safeguard: bool


Default = Callable[[int], tuple[float, float, bool]]
"""Prompt tokens to (L_ttft, L_tbt, safeguard) of the default class."""


class Table:
    """The rows, `held`; one is used again when its request is gone."""

    def __init__(self, default: Default) -> None:
        self._default = default
        self._free = list(range(_FIRST_SIZE))
        self.held = _blank(_FIRST_SIZE)

    def hold(self, request: Any, everyone: Iterable[Any]) -> int:
        """The row of a request, which is given one, and a promise, where it has none yet or new sampling
        parameters.

        `everyone` that the engine knows: asked when rows run out. Missing or odd metadata gives the default
        promise: nothing that a client sends may raise in the scheduler.
        """
        row: int = getattr(request, ROW, NONE)
        if row != NONE and getattr(request, PARAMS) is request.sampling_params:
            return row
        return self.renew(request, everyone)

    def renew(self, request: Any, everyone: Iterable[Any]) -> int:
        """The same for one whose parameters may be others: the promise is read in any case."""
        row: int = getattr(request, ROW, NONE)
        if row == NONE:
            row = self._row(everyone)
            self.held.relegated[row] = False
        held, promise = self.held, read(request, self._default)
        held.arrival[row], held.ttft[row], held.tbt[row], held.safeguard[row] = promise
        held.prompt[row] = request.num_prompt_tokens
        held.longest[row] = min(request.max_tokens, _MOST_TOKENS)
        setattr(request, PARAMS, request.sampling_params)
        setattr(request, ROW, row)
        return row

    def note(self, request: Any, everyone: Iterable[Any]) -> int:
        """Note the tokens of a request that waits for compute: nothing changes them until it runs."""
        row = self.hold(request, everyone)
        self.held.total[row] = request.num_tokens
        self.held.computed[row] = request.num_computed_tokens
        self.held.outputs[row] = request.num_output_tokens
        return row

    def _row(self, everyone: Iterable[Any]) -> int:
        if not self._free:
            used = {getattr(one, ROW, NONE) for one in everyone}
            size = len(self.held.arrival)
            self._free = [row for row in range(size) if row not in used]
            if len(self._free) < size // 4:
                self._free += range(size, 2 * size)
                both: Any = zip(self.held, _blank(size), strict=True)
                self.held = Held(*map(np.concatenate, both))
        return self._free.pop()


def _blank(rows: int) -> Held:
    return Held(
        arrival=np.zeros(rows),
        ttft=np.zeros(rows),
        tbt=np.zeros(rows),
        safeguard=np.zeros(rows, np.bool_),
        relegated=np.zeros(rows, np.bool_),
        total=np.zeros(rows, np.int64),
        computed=np.zeros(rows, np.int64),
        outputs=np.zeros(rows, np.int64),
        prompt=np.zeros(rows, np.int64),
        longest=np.zeros(rows, np.int64),
    )


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


class Roster:
    """The requests of one queue and their rows, remembered from round to round.

    Only requests that are new in the queue are looked at. A queue of thousands changes little in a step, and
    to ask each of them for its row would miss the processor's cache thousands of times.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Everybody is new again."""
        self._requests: list[Any] = []  # kept alive, so that no other request can have their addresses
        self._ids = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)

    def rows(self, requests: list[Any], enter: Callable[[Any], int]) -> Ints:
        """The row of each; `enter` gives that of a new one, `NONE` to be asked again in the next round."""
        ids = np.fromiter(map(id, requests), np.int64, len(requests))
        rows = match(self._ids, self._rows, ids)
        for index in np.flatnonzero(rows == NONE).tolist():
            rows[index] = enter(requests[index])
        self._requests, self._ids, self._rows = requests, ids, rows
        return rows
