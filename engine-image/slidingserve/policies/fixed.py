"""What the policies with a fixed budget share: filling a batch in order up to it."""

from __future__ import annotations

import numpy as np

from slidingserve.core.batch import batch_of, predict
from slidingserve.core.columns import Columns, Decision, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.room import Room


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
