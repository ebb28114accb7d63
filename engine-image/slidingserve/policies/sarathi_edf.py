"""Sarathi-EDF: chunked prefills by earliest deadline, up to a fixed budget of tokens a step.

All decodes run; prefills get what they leave of the budget, ordered by arrival + TTFT limit. No predictor, no
relegation. A partly prefilled request goes back into the order, so an earlier deadline may overtake it.
Neither the paper nor Sarathi states the budget of this baseline: 128, 256 and 512 are all to be tried.
"""

from __future__ import annotations

from slidingserve.core.columns import FIXED, FIXED_BUDGET, Columns, Decision, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.room import make_room
from slidingserve.core.settings import Settings
from slidingserve.core.sorter import by_deadline
from slidingserve.policies.fixed import decided, fill

DEFAULT_BUDGET = 256


@compiled
def plan(columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """One batch of at most the budget; more decodes than that leave no room for a prefill."""
    order = by_deadline(columns)
    budget = DEFAULT_BUDGET if settings.budget == 0 else settings.budget
    room = make_room(columns, order, budget, settings.max_chunk)
    tokens = fill(columns, room, room.prefill_tokens)
    return decided(columns, weights, order, tokens, FIXED, FIXED_BUDGET)
