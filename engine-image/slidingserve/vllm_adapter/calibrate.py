"""Calibration before Ready: real requests of token ids through the engine, so that the predictor starts
measured.

The plan of runs is the predictor's (`predictor.calibration`); here is the clock. Any head of the plan is
useful, so it stops when its time is up.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

from slidingserve.predictor.calibration import CalibrationRun, calibration_plan
from slidingserve.vllm_adapter.identity import Limits

logger = logging.getLogger("vllm.slidingserve")


class Target(Protocol):
    """The engine, as calibration needs it."""

    limits: Limits
    vocabulary: int
    progress: str

    def generate(self, prompt: list[int], tokens: int) -> AsyncIterator[int]:
        """Generate `tokens` tokens; yields the number of new ones each time."""
        ...

    async def ask(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every engine core."""
        ...


PATIENCE = 4
"""The plan is made for so many times the seconds there are: its estimates are those of a slow engine."""
PASSES = 3
"""A quick engine runs the plan so often, to see each kind of batch more than once."""


async def calibrate(engine: Target, seconds: float) -> None:
    """Run the plan, or its head, for at most `seconds`; again while most of the time is left."""
    limits = engine.limits
    plan = calibration_plan(
        max_batched_tokens=limits.max_batch_tokens,
        max_model_len=limits.max_model_len,
        max_requests=limits.max_requests,
        seconds=PATIENCE * seconds,
        device=limits.device,
    )
    begin = time.monotonic()
    logger.info("slidingserve: calibrating with %d runs, %g s at most", len(plan), seconds)
    for number, run in enumerate(plan * PASSES, 1):
        left = begin + seconds - time.monotonic()
        if left <= 0 or (number > len(plan) and left < seconds / 2):
            break
        engine.progress = f"calibrating, run {number}"
        await engine.ask("slidingserve_calibration", "warmup" if run.warmup else "measure")
        try:
            async with asyncio.timeout(left):
                await _run(engine, run, random.Random(number))  # noqa: S311 - prompts, not secrets
        except TimeoutError:
            logger.info("slidingserve: calibration cut short in run %d", number)
            break
    logger.info("slidingserve: calibrated in %.1f s", time.monotonic() - begin)


async def _run(engine: Target, run: CalibrationRun, chance: random.Random) -> None:
    """One burst: the decodes, and once each has its first token, the prefills together."""
    begun = [asyncio.Event() for _ in run.decodes]
    async with asyncio.TaskGroup() as group:
        for length, first in zip(run.decodes, begun, strict=True):
            group.create_task(_consume(engine, _prompt(engine, length, chance), run.output_tokens, first))
        for first in begun:
            await first.wait()
        for length in run.prefills:
            group.create_task(_consume(engine, _prompt(engine, length, chance), 1, asyncio.Event()))


async def _consume(engine: Target, prompt: list[int], tokens: int, first: asyncio.Event) -> None:
    async for count in engine.generate(prompt, tokens):
        if count:
            first.set()
    first.set()


def _prompt(engine: Target, length: int, chance: random.Random) -> list[int]:
    return [chance.randrange(engine.vocabulary) for _ in range(length)]
