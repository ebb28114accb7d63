"""The paper's method. Read `plan` from top to bottom: it is Figure 3, with its numbers.

Beyond the paper, and only if asked for: relegation above capacity.
"""

from __future__ import annotations

import numpy as np

from slidingserve.core.chunker import chunk, sliding_windows
from slidingserve.core.columns import (
    CHUNKER,
    CONSTRUCTOR,
    NONE_SAVED,
    SAVED,
    Bools,
    Columns,
    Decision,
    Ints,
    Weights,
)
from slidingserve.core.compiled import compiled
from slidingserve.core.constructor import Built, construct
from slidingserve.core.forwarder import Forwarder, forward, make_forwarder, pred, time_to_budget
from slidingserve.core.relegation import behind, hopeful, relegate
from slidingserve.core.room import Room, make_room
from slidingserve.core.settings import NO_LIMIT, Settings
from slidingserve.core.sorter import by_deadline, by_priority
from slidingserve.core.violation import at_risk, full_seconds


@compiled
def plan(columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """The next batch. No request gives an empty one."""
    # (2) The Priority Sorter; without it, earliest deadline first.
    order = by_priority(columns, weights, settings) if settings.mlps else by_deadline(columns)
    relegated = columns.relegated
    if settings.relegate:  # not of the paper
        relegated = relegate(columns, order, weights)
        order = behind(order, relegated)
    # (3) What may be in a batch: all decodes, then the queue in that order; B is the most that it may hold.
    total = settings.budget if settings.budget > 0 else NO_LIMIT
    room = make_room(columns, order, total, settings.max_chunk)
    forwarder = make_forwarder(weights, columns, room.decodes, room.prefills)
    limit = len(room.decodes) + room.prefill_tokens
    windows = sliding_windows(columns, room, settings)
    # (4), (5) The Violation Checker; (6) the BatchConstructor, if a first token is at risk.
    if settings.constructor and room.prefill_tokens > 0:
        full = full_seconds(forwarder, limit, settings)
        candidates = hopeful(room.prefills, relegated) if settings.relegate else room.prefills
        if at_risk(columns, candidates, full):
            built = construct(columns, forwarder, candidates, windows, full, limit, settings)
            if built.requests > 0:
                return _constructed(columns, relegated, forwarder, room, order, built, limit, settings)
            if not settings.fall_through and len(room.decodes) > 0:
                return _sized(relegated, forwarder, room, order, forwarder.decodes, CONSTRUCTOR, NONE_SAVED)
    # (5) No risk, or none that can be averted: the SlidingChunker.
    size = chunk(forwarder, windows, limit, settings)
    return _sized(relegated, forwarder, room, order, size.budget, CHUNKER, size.reason)


@compiled
def _sized(
    relegated: Bools, forwarder: Forwarder, room: Room, order: Ints, budget: int, branch: int, reason: int
) -> Decision:
    """The batch of that budget, filled in service order."""
    tokens = forward(forwarder, room.decodes, room.prefills, budget, len(relegated))
    seconds = pred(forwarder, budget)
    return Decision(tokens, order, relegated, budget, seconds, branch, reason)


@compiled
def _constructed(
    columns: Columns,
    relegated: Bools,
    forwarder: Forwarder,
    room: Room,
    order: Ints,
    built: Built,
    limit: int,
    settings: Settings,
) -> Decision:
    """Equation 22: every decode one token, every chosen prefill all that it needs. With `rest="fill"` the
    others get, in service order, what time is left."""
    queue = np.empty(len(room.prefills), np.int64)
    count = 0
    for row in room.prefills:
        if built.chosen[row]:
            queue[count] = row
            count += 1
    if settings.fill_rest:
        for row in room.prefills:
            if not built.chosen[row]:
                queue[count] = row
                count += 1
    chosen = queue[:count]
    rebuilt = make_forwarder(forwarder.weights, columns, room.decodes, chosen)
    budget = forwarder.decodes + built.tokens
    if settings.fill_rest:
        budget = max(budget, time_to_budget(rebuilt, built.seconds / settings.margin, limit))
    tokens = forward(rebuilt, room.decodes, chosen, budget, len(columns.phase))
    seconds = pred(rebuilt, budget)
    return Decision(tokens, order, relegated, budget, seconds, CONSTRUCTOR, SAVED)
