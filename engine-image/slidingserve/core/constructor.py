"""The BatchConstructor (section 3.5, Algorithm 2): which prefills end in this batch when some are at risk.

Each request at risk is tried as the anchor: its slack bounds the batch, it must be in, and a knapsack fills
the rest of that time with other whole prefills. The best anchor's set is the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.batch import predict
from slidingserve.core.chunker import Windows
from slidingserve.core.columns import Bools, Columns, Floats, Ints
from slidingserve.core.compiled import compiled
from slidingserve.core.forwarder import Forwarder, time_to_budget
from slidingserve.core.knapsack import knapsack
from slidingserve.core.ordering import sort_rows
from slidingserve.core.settings import Settings
from slidingserve.predictor.features import Features

MOST_ANCHORS = 16
"""Feasible anchors that are tried, the most urgent first."""
MOST_ITEMS = 64
"""Requests that one knapsack chooses from, the most urgent first. With the table's `MOST_CELLS` the work of
a round is bounded: at most anchors x items x cells."""


class Built(NamedTuple):
    """Y* of Algorithm 2."""

    chosen: Bools
    """By row of the columns: the prefills that end in this batch. None: no anchor could be saved."""
    requests: int
    """|Y*|; 0: none."""
    value: float
    """Sum of v_j over Y*."""
    tokens: int
    """Sum of r_j over Y*."""
    seconds: float
    """T_a of its anchor: what the batch may take."""


@compiled
def construct(
    columns: Columns,
    forwarder: Forwarder,
    prefills: Ints,
    windows: Windows,
    full: float,
    limit: int,
    settings: Settings,
) -> Built:
    """Algorithm 2 from line 10 on. `full`: T_full. `limit`: B, the most tokens with the decodes."""
    queue = by_slack(columns, prefills)
    work, time = _sums_from(columns, queue)
    best = Built(np.zeros(0, np.bool_), 0, 0.0, 0, 0.0)
    tried = 0
    for place in range(len(queue)):
        anchor = queue[place]
        if columns.slack[anchor] >= full or tried == MOST_ANCHORS:
            break
        seconds = columns.slack[anchor]
        if settings.anchor_in_window:
            seconds = min(seconds, windows.current)
        if seconds <= 0:
            continue
        budget = time_to_budget(forwarder, seconds / settings.margin, limit)
        capacity = min(limit, budget) - forwarder.decodes
        if columns.remaining[anchor] > capacity:
            continue  # line 18: not even the anchor alone ends in time
        tried += 1
        built = _around(columns, queue, place, capacity, seconds, work, time, settings)
        if settings.verified and _set_seconds(columns, forwarder, built) * settings.margin > seconds:
            continue
        if better(built, best):
            best = built
    return best


@compiled
def by_slack(columns: Columns, prefills: Ints) -> Ints:
    """C of line 10: the rows by increasing (s_j, r_j)."""
    level = np.zeros(len(columns.phase), np.int64)
    return sort_rows(prefills.copy(), level, columns.slack, columns.remaining.astype(np.float64))


@compiled
def _sums_from(columns: Columns, queue: Ints) -> tuple[Floats, Floats]:
    """Sums of r and of s over the queue from each place to its end, shape m + 1: equation 18's divisors."""
    work, time = np.zeros(len(queue) + 1), np.zeros(len(queue) + 1)
    for place in range(len(queue) - 1, -1, -1):
        work[place] = work[place + 1] + columns.remaining[queue[place]]
        time[place] = time[place + 1] + columns.slack[queue[place]]
    return work, time


@compiled
def value(remaining: int, slack: float, work: float, time: float) -> float:
    """v_j of equation 18: high for little work and little slack, each as a share of all of S_a's."""
    return 1.0 / (remaining / work + slack / time)


@compiled
def _around(
    columns: Columns,
    queue: Ints,
    place: int,
    capacity: int,
    seconds: float,
    work: Floats,
    time: Floats,
    settings: Settings,
) -> Built:
    """Lines 21 to 26: the anchor at that place of the queue, and what the knapsack adds to it."""
    anchor = queue[place]
    start = place
    while start > 0 and columns.slack[queue[start - 1]] == columns.slack[anchor]:
        start -= 1  # S_a holds all with s_j >= s_a, the anchor's equals too
    all_work, all_time = work[start], time[start]
    room = capacity - columns.remaining[anchor]
    items, weights, values = _items(columns, queue, start, place, room, all_work, all_time)
    taken = knapsack(weights, values, room, settings.quantum)
    chosen = np.zeros(len(columns.phase), np.bool_)
    chosen[anchor] = True
    count, tokens = 1, columns.remaining[anchor]
    total = value(columns.remaining[anchor], columns.slack[anchor], all_work, all_time)
    for i in range(len(items)):
        if taken[i]:
            chosen[items[i]] = True
            count += 1
            tokens += weights[i]
            total += values[i]
    return Built(chosen, count, total, tokens, seconds)


@compiled
def _items(
    columns: Columns, queue: Ints, start: int, anchor: int, room: int, work: float, time: float
) -> tuple[Ints, Ints, Floats]:
    """S_a without the anchor, as far as each fits alone: rows, weights r_j, values v_j."""
    most = min(len(queue) - start, MOST_ITEMS)
    rows, weights, values = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    count = 0
    for place in range(start, len(queue)):
        if count == most:
            break
        row = queue[place]
        if place == anchor or columns.remaining[row] > room:
            continue
        rows[count], weights[count] = row, columns.remaining[row]
        values[count] = value(columns.remaining[row], columns.slack[row], work, time)
        count += 1
    return rows[:count], weights[:count], values[:count]


@compiled
def _set_seconds(columns: Columns, forwarder: Forwarder, built: Built) -> float:
    """What the chosen set takes: not a head of the queue, so the capacity alone does not tell."""
    attention = squares = cached = 0.0
    largest = 0
    for row in range(len(built.chosen)):
        if built.chosen[row]:
            r, u = columns.remaining[row], columns.cached[row]
            attention += r * (u + r)
            squares += r * r
            cached += u
            largest = max(largest, r)
    batch = Features(
        attention,
        squares,
        cached + forwarder.context,
        float(forwarder.decodes),
        forwarder.context,
        float(built.tokens),
        float(largest),
    )
    return max(predict(forwarder.weights, batch), forwarder.decode_only)


@compiled
def better(one: Built, other: Built) -> bool:
    """COMPARER, equation 21: more requests that end, then more value, then more tokens used."""
    if one.requests != other.requests:
        return one.requests > other.requests
    if one.value != other.value:
        return one.value > other.value
    return one.tokens > other.tokens
