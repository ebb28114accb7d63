"""A vLLM `Request` as the method sees it: its promise (read once, never trusted) and its row of the
snapshot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from slidingserve.core.snapshot import Phase
from slidingserve.server.promise import KEY

ATTRIBUTE = "slidingserve_held"
_LONGEST = 86_400.0 * 365


class Held(NamedTuple):
    """What one request is held to; times in seconds, `arrival` on the monotonic clock of this process."""

    params: Any
    """The sampling parameters it was read from: a streaming session brings new ones, which are read anew."""
    arrival: float
    ttft: float
    tbt: float
    safeguard: bool


Default = Callable[[int], tuple[float, float, bool]]
"""Prompt tokens to (L_ttft, L_tbt, safeguard) of the default class."""


def held(request: Any, default: Default) -> Held:
    """The promise of a request, read on first sight and kept on it.

    Missing or odd metadata gives the default promise: nothing that a client sends may raise in the scheduler.
    """
    known: Held | None = getattr(request, ATTRIBUTE, None)
    if known is not None and known.params is request.sampling_params:
        return known
    value = _read(request, default)
    setattr(request, ATTRIBUTE, value)
    return value


def _read(request: Any, default: Default) -> Held:
    params = request.sampling_params
    extra = getattr(params, "extra_args", None) or {}
    promise = extra.get(KEY) if isinstance(extra, dict) else None
    fields = promise if isinstance(promise, dict) else {}
    ttft, tbt = _limit(fields.get("ttft_s")), _limit(fields.get("tbt_s"))
    safeguard = fields.get("safeguard") is True
    if ttft is None or tbt is None:
        ttft, tbt, safeguard = default(request.num_prompt_tokens)
    wall = fields.get("arrival")
    if not isinstance(wall, float) or not math.isfinite(wall):
        wall = request.arrival_time
    return Held(params, _monotonic(wall), ttft, tbt, safeguard)


def _monotonic(wall: float) -> float:
    """The front end's wall clock on the monotonic clock of this process; never in the future."""
    return time.monotonic() - max(time.time() - wall, 0.0)


def _limit(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LONGEST
    return float(value) if usable else None  # type: ignore[arg-type]  # `usable` says it is a number


def running_row(request: Any, default: Default) -> tuple[Any, ...]:
    """The row of a running request, in the order of `core.snapshot.Row`.

    Work in flight counts as done (asynchronous scheduling): vLLM advances `num_computed_tokens` when it
    schedules, and output that is still being computed stands in `num_output_placeholders`.
    """
    promise = held(request, default)
    placeholders = request.num_output_placeholders
    total = request.num_tokens + placeholders
    computed = request.num_computed_tokens
    outputs = request.num_output_tokens + placeholders
    phase = Phase.DECODE if outputs and total - computed <= 1 else Phase.PREFILL
    return (
        request.request_id, phase, promise.arrival, total, computed, outputs,
        promise.ttft, promise.tbt, promise.safeguard,
    )  # fmt: skip


def waiting_row(request: Any, default: Default) -> tuple[Any, ...]:
    """The row of a waiting or preempted request: prompt, and after a preemption output too, is to be
    computed."""
    promise = held(request, default)
    return (
        request.request_id, Phase.WAITING, promise.arrival, request.num_tokens, request.num_computed_tokens,
        request.num_output_tokens, promise.ttft, promise.tbt, promise.safeguard,
    )  # fmt: skip
