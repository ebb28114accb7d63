"""P-PAS: vLLM's order with an adaptive budget and no predictor (Saemann, arXiv 2608.15171).

A step may hold all that the batch holds while the engine is under little pressure; with several prefills
about and decodes running, or with one very long prefill beside two decodes (P-PAS+), it is capped.
"""

from __future__ import annotations

from slidingserve.core.batch import DECODE, PREFILL
from slidingserve.core.columns import FIXED, FIXED_BUDGET, PRESSURE, Columns, Decision, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.room import make_room
from slidingserve.core.settings import NO_LIMIT, Settings
from slidingserve.core.sorter import prefill_rows
from slidingserve.policies.fixed import decided, fill


@compiled
def plan(columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """Running prefills, then waiting ones, up to the budget that the pressure allows."""
    order = prefill_rows(columns)
    total = settings.budget if settings.budget > 0 else NO_LIMIT
    reason = FIXED_BUDGET
    if under_pressure(columns, settings):
        total = min(total, settings.pressure_cap)
        reason = PRESSURE
    room = make_room(columns, order, total, settings.max_chunk)
    tokens = fill(columns, room, room.prefill_tokens)
    return decided(columns, weights, order, tokens, FIXED, reason)


@compiled
def under_pressure(columns: Columns, settings: Settings) -> bool:
    """Two prefills, running or waiting, beside a decode; or a lone running one, still large, beside two."""
    decodes = running = left = 0
    for i in range(len(columns.phase)):
        if columns.phase[i] == DECODE:
            decodes += 1
        elif columns.phase[i] == PREFILL:
            running += 1
            left += columns.remaining[i]
    prefills = len(columns.phase) - decodes
    large = running == 1 and decodes >= 2 and left >= settings.large_prefill
    return (prefills >= 2 and decodes > 0) or large
