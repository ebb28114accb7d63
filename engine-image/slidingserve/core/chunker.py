"""The SlidingChunker (section 3.4, Algorithm 1): how large this batch is, with an eye on the next.

The tightest decode gives a window of time for this step (T_cur) and for the one after (T_next). Both turn
into budgets; their sum is then split so that the two steps together take the least time. With
`window="single"` only the first window counts, and it is filled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slidingserve.core.columns import (
    ALL_FITS,
    HELD,
    MARGIN_SPENT,
    NO_PREFILL,
    OPEN_WINDOW,
    SPLIT,
    WINDOW_FULL,
    Columns,
)
from slidingserve.core.compiled import compiled
from slidingserve.core.forwarder import (
    Forwarder,
    largest_budget,
    pred,
    pred_after,
    pred_unfloored,
    time_to_budget,
)
from slidingserve.core.room import Room
from slidingserve.core.settings import Settings

SPAN = 30
"""Line 6: the search stops when so few budgets are left."""


class Windows(NamedTuple):
    """Seconds that this step and the next may take; infinite where nothing bounds them."""

    current: float
    """T_cur, equation 14."""
    following: float
    """T_next, equation 15."""


class Chunk(NamedTuple):
    """The size of a batch and why."""

    budget: int
    """Tokens, decodes included."""
    reason: int
    """Index into `REASONS`."""


@compiled
def sliding_windows(columns: Columns, room: Room, settings: Settings) -> Windows:
    """T_cur = min s_i and T_next = min (s_i - T_cur + L_tbt), both over D_safe (equations 14 and 15).

    D_safe: the decodes of this batch that have not missed their deadline yet (a token that is late already
    is lost, and saving time no longer helps it), or all of them. Without one, no bound; or, with
    `idle_window="least_tbt"`, the least L_tbt of the queue for both, as if a decode of it had just begun.
    """
    current = following = math.inf
    for row in room.decodes:
        if columns.slack[row] > 0 or not settings.late_unprotected:
            current = min(current, columns.slack[row])
            following = min(following, columns.slack[row] + columns.tbt_limit[row])
    if current < math.inf:
        return Windows(current, following - current)
    if not settings.idle_open:
        for row in room.prefills:
            current = min(current, columns.tbt_limit[row])
    return Windows(current, current)


@compiled
def chunk(forwarder: Forwarder, windows: Windows, limit: int, settings: Settings) -> Chunk:
    """B*: the budget of this batch, at most `limit` tokens (B of Algorithm 1) with the decodes.

    B_cur is the largest budget whose predicted time times the margin is within T_cur. If that leaves less
    than `min_chunk` to prefill (or all that is left to prefill, if that is less), then `min_chunk` at the
    cost of the margin, as long as the plain prediction still fits. If not even that: with `hold` the decodes
    alone, which gain a whole L_tbt of slack by it; else the chunk all the same, at the cost of a decode.

    Holding starves no prefill for good: each held step brings every decode one token nearer to its end, and
    no new decode can appear while prefills are held. The literal search knows none of these stages.
    """
    limit = min(limit, largest_budget(forwarder))
    if limit <= forwarder.decodes:
        return Chunk(forwarder.decodes, NO_PREFILL)
    if windows.current == math.inf:
        return Chunk(limit, OPEN_WINDOW)
    current = time_to_budget(forwarder, windows.current / settings.margin, limit)
    smallest = min(forwarder.decodes + settings.min_chunk, limit)
    least = forwarder.decodes if forwarder.decodes > 0 else smallest  # an empty batch is no choice
    if settings.sliding and not settings.clamped:
        return Chunk(max(_split(forwarder, windows, current, limit, settings), least), SPLIT)
    if current < smallest:
        fits = pred(forwarder, smallest) <= windows.current
        return Chunk(smallest, MARGIN_SPENT) if fits or not settings.hold else Chunk(least, HELD)
    if not settings.sliding:
        return Chunk(current, ALL_FITS if current == limit else WINDOW_FULL)
    budget = max(_split(forwarder, windows, current, limit, settings), least)
    if forwarder.decodes < budget < smallest:
        budget = smallest
    return Chunk(budget, ALL_FITS if budget == limit else SPLIT)


@compiled
def _split(forwarder: Forwarder, windows: Windows, current: int, limit: int, settings: Settings) -> int:
    """Algorithm 1 from line 2 on: the b that minimises T(b) + T(B_sum - b), equation 16.

    `current`: B_cur. `limit`: B. The range is [|D|, B] in the paper; clamped, it is
    [max(|D|, B_sum - B), B_cur], so that neither step can be longer than its window or larger than a batch.
    """
    total = current + time_to_budget(forwarder, windows.following / settings.margin, limit)
    low, high = forwarder.decodes, limit
    if settings.clamped:
        low, high = max(low, total - limit), current
    first, last = low, high
    while high - low > SPAN:
        third = (high - low) // 3
        left, right = low + third, high - third
        if _both(forwarder, left, total, settings) <= _both(forwarder, right, total, settings):
            high = right - 1
        else:
            low = left + 1
    best, least = first, math.inf
    for budget in (first, last, (low + high) // 2):
        seconds = _both(forwarder, budget, total, settings)
        if seconds < least or (seconds == least and budget > best):
            best, least = budget, seconds
    return best


@compiled
def _both(forwarder: Forwarder, budget: int, total: int, settings: Settings) -> float:
    """Seconds of a step of `budget` tokens and one of the rest of `total`: what line 9 adds up."""
    rest = total - budget
    if not settings.floored and rest < forwarder.decodes:
        second = pred_unfloored(forwarder, rest)
    elif settings.advanced:
        second = pred_after(forwarder, budget, rest)
    else:
        second = pred(forwarder, rest)
    return pred(forwarder, budget) + second
