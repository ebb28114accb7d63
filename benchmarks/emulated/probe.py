"""What the front end adds to a first token: HTTP, tokens in and out of the core, by an idle engine.

The simulator has none of it; `benchmarks.agreement` says how much of its distance this explains.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import numpy as np
from slidingserve.bench.client import Result, Target, http_client, send
from slidingserve.bench.workload import Item

from benchmarks.emulated.engine import Engine

LENGTHS = (1, 1000, 5000)
EACH = 15
LOG_SECONDS = 1.2


def front_end(engine: Engine, model: str) -> dict[str, Any]:
    """Milliseconds from sending to the first token, less the batches' own time, by prompt length."""
    target = Target(engine.url + "/v1", model, cache_salt=secrets.token_hex(8))
    found = {length: asyncio.run(alone(target, length, EACH)) for length in LENGTHS}
    time.sleep(LOG_SECONDS)
    asyncio.run(alone(target, 2, 1))  # a batch, with which the log of those before it is written out
    rows = engine.rows()
    return {
        str(length): float(np.median([_added(result, rows) for result in results]) * 1000)
        for length, results in found.items()
    }


async def alone(target: Target, length: int, count: int) -> list[Result]:
    """Requests one after the other. Their `sent` is on the monotonic clock, as the device's is."""
    async with http_client(target, 1) as client:
        results = []
        for index in range(count):
            item = Item(1000 * length + index, 0.0, None, length, 2)
            results.append(await send(client, target, item, 0.0))
            await asyncio.sleep(0.1)
        return results


def _added(result: Result, rows: list[dict[str, float]]) -> float:
    """Seconds of a request's first token that no batch of it took: before, after, and between them."""
    begin, end = result.sent, result.sent + result.token_times[0]
    mine = [row for row in rows if begin <= row["start"] and row["end"] <= end]
    return result.token_times[0] - sum(row["end"] - row["start"] for row in mine)
