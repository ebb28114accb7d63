"""A batch as the predictor sees it (Table 1), and what it takes (equation 5). Compiled.

`predictor.model` holds the same formula for people and for fitting; a test keeps the two alike.
"""

from __future__ import annotations

from slidingserve.core.columns import Columns, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.predictor.features import Features
from slidingserve.predictor.model import FLOOR_SECONDS

WAITING, PREFILL, DECODE = 0, 1, 2
"""`Phase`, as compiled code reads it."""


@compiled
def predict(weights: Weights, batch: Features) -> float:
    """Seconds by the weights of the batch's scene (equations 3 and 5), at least `FLOOR_SECONDS`."""
    scene = 0
    if batch.prefill_tokens > 0:
        scene = 2 if batch.decode_requests > 0 else 1
    w = weights[scene]
    seconds = (
        w[0]
        + w[1] * batch.prefill_attention
        + w[2] * batch.chunk_attention
        + w[3] * batch.cached_tokens
        + w[4] * batch.decode_requests
        + w[5] * batch.decode_context
        + w[6] * batch.prefill_tokens
        + w[7] * batch.largest_chunk
    )
    return float(max(seconds, FLOOR_SECONDS))


@compiled
def batch_of(columns: Columns, tokens: Ints) -> Features:
    """The batch in which request i computes `tokens[i]`; the phase tells decodes from prefills."""
    attention = squares = cached = decodes = context = total = largest = 0
    for i in range(len(tokens)):
        count = tokens[i]
        if count == 0:
            continue
        before = columns.cached[i]
        cached += before
        if columns.phase[i] == DECODE:
            decodes += 1
            context += before
        else:
            attention += count * (before + count)
            squares += count * count
            total += count
            largest = max(largest, count)
    return Features(
        float(attention),
        float(squares),
        float(cached),
        float(decodes),
        float(context),
        float(total),
        float(largest),
    )
