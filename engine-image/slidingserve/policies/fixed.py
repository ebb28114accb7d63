"""What the policies without a predictor share: queue orders, and filling a batch up to a fixed budget."""

from __future__ import annotations

import numpy as np

from slidingserve.core.batch import DECODE, batch_of, predict
from slidingserve.core.columns import Columns, Decision, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.ordering import sort_rows
from slidingserve.core.room import Room


@compiled
def engine_order(columns: Columns) -> Ints:
    """Rows of all prefilling and waiting requests as the engine has them: vLLM's order."""
    rows = np.empty(len(columns.phase), np.int64)
    count = 0
    for i in range(len(columns.phase)):
        if columns.phase[i] != DECODE:
            rows[count] = i
            count += 1
    return rows[:count]


@compiled
def deadline_order(columns: Columns) -> Ints:
    """The same rows by earliest first-token deadline, arrival + L_ttft; ties by arrival."""
    level = np.zeros(len(columns.phase), np.int64)
    key = columns.arrival + columns.ttft_limit
    return sort_rows(engine_order(columns), level, key, columns.arrival)


@compiled
def fill(columns: Columns, room: Room, prefill_tokens: int) -> Ints:
    """Tokens by row: one for each decode of the room, then its prefills in order while tokens last."""
    tokens = np.zeros(len(columns.phase), np.int64)
    for row in room.decodes:
        tokens[row] = 1
    left = min(prefill_tokens, room.prefill_tokens)
    for row in room.prefills:
        if left <= 0:
            break
        tokens[row] = min(columns.remaining[row], left)
        left -= tokens[row]
    return tokens


@compiled
def decided(
    columns: Columns, weights: Weights, order: Ints, tokens: Ints, branch: int, reason: int
) -> Decision:
    """A decision for a batch that was not sized by the predictor."""
    seconds = predict(weights, batch_of(columns, tokens))
    return Decision(tokens, order, columns.relegated, tokens.sum(), seconds, branch, reason)
