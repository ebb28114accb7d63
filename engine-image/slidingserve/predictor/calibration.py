"""Before the first measured batch: a cautious model, and what to run to get a measured one.

The adapter carries a calibration out before Ready, by real requests through the engine, and keeps its own
wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from slidingserve.predictor.features import batch_features
from slidingserve.predictor.model import LatencyModel, Weights

_DEFAULTS = {
    # An 8B model on two RTX 3090: 2,048 tokens in 0.4 s, a token of context 0.1 us.
    "cuda": Weights(0.02, (2e-9, 0.0, 0.0, 5e-5, 1e-7, 2e-4, 0.0)),
    # A small model on one core: a thousand tokens a second.
    "cpu": Weights(0.02, (2e-8, 0.0, 0.0, 2e-3, 1e-6, 1e-3, 0.0)),
}


@dataclass(frozen=True)
class CalibrationRun:
    """One burst of requests. Start the decodes; when each has its first token, send the prefills together."""

    decodes: tuple[int, ...]
    """Prompt lengths of the requests that decode."""
    output_tokens: int
    """Tokens that each of these generates."""
    prefills: tuple[int, ...]
    """Prompt lengths of the requests that only prefill: one output token each."""
    seconds: float
    """What it should take, by the default model."""
    warmup: bool = False
    """Run it, and leave its batches out: the first steps of a process load code and fill caches."""


def default_model(device: str) -> LatencyModel:
    """The model to plan with before any batch was measured, for "cuda" or "cpu" (others: as "cuda").

    Slow rather than fast: a plan that trusts it makes chunks too small, which costs throughput for the first
    seconds; one that is too fast would break promises.
    """
    return LatencyModel(_DEFAULTS.get(device, _DEFAULTS["cuda"]))


def calibration_plan(
    *,
    max_batched_tokens: int,
    max_model_len: int,
    max_requests: int,
    seconds: float,
    device: str = "cuda",
) -> list[CalibrationRun]:
    """Runs that show the predictor every scene at several sizes, most telling first, `seconds` long by the
    default model.

    Any head of the list is a useful calibration, so stop when time is up. Every prompt with its output fits
    `max_model_len`, no run has more than `max_requests` requests.
    """
    model = default_model(device)
    longest = max(1, max_model_len - _OUTPUT - 1)
    step = min(max_batched_tokens, longest)
    chosen: list[CalibrationRun] = []
    left = seconds
    for decodes, context, prefills in _shapes(step, longest, max_requests):
        run = CalibrationRun((context,) * decodes, _OUTPUT, tuple(prefills), 0.0, warmup=not chosen)
        lasting = _lasting(model, run, max_batched_tokens)
        if lasting <= left:
            chosen.append(CalibrationRun(run.decodes, _OUTPUT, run.prefills, lasting, run.warmup))
            left -= lasting
    return chosen


_OUTPUT = 24


def _shapes(step: int, longest: int, most: int) -> list[tuple[int, int, list[int]]]:
    """(decodes, context of each, prompts to prefill) of every run, coarse before fine."""

    def tokens(share: float) -> int:
        return max(1, int(step * share))

    few, many = min(4, most), min(16, most)
    short = min(32, longest)
    coarse: list[tuple[int, int, list[int]]] = [
        (1, short, []),
        (0, 0, [tokens(1)]),
        (0, 0, [tokens(1 / 8)]),
        (few, short, []),
        (few, short, [tokens(1 / 4)]),
        (0, 0, [tokens(1 / 2)]),
        (0, 0, [tokens(1 / 32)]),
        (many, short, []),
        (many, short, [tokens(1 / 2)]),
        (0, 0, [min(3 * step, longest)]),
        (few, tokens(1 / 2), [tokens(1 / 8)]),
    ]
    fine = [
        (0, 0, [tokens(1 / 16)] * min(4, most)),
        (0, 0, [tokens(3 / 4), tokens(1 / 8)][:most]),
        (1, min(step, longest), []),
        (many, tokens(1 / 8), []),
        (min(64, most), short, []),
        (min(64, most), short, [tokens(1 / 4)]),
        (few, short, [tokens(1 / 16)] * 2),
        (0, 0, [tokens(1 / 4)]),
        (0, 0, [tokens(1)]),
    ]
    return [
        (n, context, prompts if n + len(prompts) <= most else [])
        for n, context, prompts in coarse + fine
        if n or prompts
    ]


def _lasting(model: LatencyModel, run: CalibrationRun, max_batched_tokens: int) -> float:
    """Seconds of a run: its prefills in full batches, and one batch a token of its decodes."""
    total = 0.0
    for prompts in (run.decodes, run.prefills):
        left = sum(prompts)
        while left > 0:
            count = min(left, max_batched_tokens)
            total += model.predict(batch_features([], [(count, sum(prompts) - left)]))
            left -= count
    if run.decodes:
        total += run.output_tokens * model.predict(batch_features(run.decodes, []))
    return total
