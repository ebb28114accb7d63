"""The SlidingChunker's first form: how large the next batch is, by the tightest decode of this step alone.

It holds the window of one iteration (T_cur, equation 14); the look at the iteration after it (equations 15
and 16) comes on top of the same forwarder.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from slidingserve.core.forwarder import BatchForwarder
from slidingserve.core.snapshot import Floats


class Chunk(NamedTuple):
    """The size of a batch and why."""

    budget: int
    """Tokens, decodes included."""
    reason: str


def current_window(decode_slack: Floats) -> float:
    """T_cur: the least slack of the decodes that have not missed their deadline yet (equation 14), seconds.

    Infinite without such a decode: a token that is late already is lost, and saving time no longer helps it.
    """
    safe = decode_slack[decode_slack > 0]
    return float(safe.min()) if len(safe) else math.inf


def chunk(
    forwarder: BatchForwarder,
    window: float,
    limit: int,
    *,
    min_chunk: int,
    margin: float,
    tight: Literal["hold", "min_chunk"] = "hold",
) -> Chunk:
    """The budget of the next batch: at most `limit` tokens with the decodes, for `window` seconds.

    The largest whose predicted time times `margin` is within the window. If that leaves less than `min_chunk`
    to prefill (or all that is left to prefill, if that is less), then `min_chunk` at the cost of the margin,
    as long as the plain prediction still fits. If not even that: with `tight="hold"` the decodes alone, which
    gain a whole L_tbt of slack by it; with "min_chunk" the chunk all the same, at the cost of a decode's
    deadline.

    Holding starves no prefill for good: each held step brings every decode one token nearer to its end, and
    no new decode can appear while prefills are held.
    """
    limit = min(limit, forwarder.largest_budget)
    if limit <= forwarder.decodes:
        return Chunk(forwarder.decodes, "decodes only: nothing to prefill, or no room for it")
    if math.isinf(window):
        return Chunk(limit, "no decode to protect: as much as the batch holds")
    smallest = min(forwarder.decodes + min_chunk, limit)
    budget = forwarder.time_to_budget(window / margin, limit)
    if budget >= smallest:
        return Chunk(budget, "all that the tightest decode allows" if budget < limit else "all of it fits")
    if tight == "min_chunk" or forwarder.pred(smallest) <= window:
        return Chunk(smallest, "smallest chunk: the margin does not fit")
    return Chunk(forwarder.decodes, "decodes only: the smallest chunk would lose a decode")
