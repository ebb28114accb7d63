"""QoServe (Niyama), as its artifact does it: hybrid priority, dynamic chunking, eager relegation.

Differences to the artifact, all in its favour: batch times come from the engine's own predictor (Table 1)
instead of coefficients of an A100; slack is that of this project's deadlines, which a late first token does
not move, so a decode that is late already does not bound a chunk (`safe_decodes`).
"""

from __future__ import annotations

import math

import numpy as np

from slidingserve.core.batch import WAITING, predict
from slidingserve.core.columns import CHUNKER, GRID, Bools, Columns, Decision, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.ordering import sort_rows
from slidingserve.core.room import Room, make_room
from slidingserve.core.settings import NO_LIMIT, Settings
from slidingserve.core.sorter import prefill_rows
from slidingserve.policies.fixed import decided, fill
from slidingserve.predictor.features import Features

FIRST_THROUGHPUT = 8500.0
"""Prefill tokens a second before anything was measured: the artifact's."""
SCARCE_KV_TOKENS = 32_000
"""With less free cache the grid ends at `SCARCE_LARGEST`."""
SCARCE_LARGEST = 512
ARTIFACT_LARGEST = 2552


@compiled
def plan(columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """One batch: all decodes, and the largest chunk of the grid that the tightest of them allows."""
    total = settings.budget if settings.budget > 0 else NO_LIMIT
    order = _hybrid_order(columns, columns.relegated, settings)
    room = make_room(columns, order, total, settings.max_chunk)
    chunk = _chunk(columns, weights, room, order, settings)
    relegated = columns.relegated
    if settings.relegation:
        relegated = _relegate(columns, order, min(chunk, room.prefill_tokens))
        order = _hybrid_order(columns, relegated, settings)
        room = make_room(columns, order, total, settings.max_chunk)
    tokens = fill(columns, room, chunk)
    made = decided(columns, weights, order, tokens, CHUNKER, GRID)
    return Decision(made.tokens, made.order, relegated, made.budget, made.seconds, made.branch, made.reason)


@compiled
def _hybrid_order(columns: Columns, relegated: Bools, settings: Settings) -> Ints:
    """By (relegated, arrival + L_ttft + alpha' r), alpha' = `hybrid` * alpha seconds a token.

    Alpha' 0 is EDF, a large one tends to shortest first; 0.008 is the artifact's (alpha 0.8).
    """
    level = relegated.astype(np.int64)
    weight = settings.hybrid * settings.alpha
    key = columns.arrival + columns.ttft_limit + weight * columns.remaining
    return sort_rows(prefill_rows(columns), level, key, columns.arrival)


@compiled
def _relegate(columns: Columns, order: Ints, chunk: int) -> Bools:
    """The flags after this step: set for requests that come up, hold no KV and cannot make their deadline.

    Those that come up are the ones that the chunk reaches, as the artifact pops them from its heap.
    """
    throughput = columns.throughput if columns.throughput > 0 else FIRST_THROUGHPUT
    relegated = columns.relegated.copy()
    left = chunk
    for row in order:
        if left <= 0:
            break
        late = (
            columns.now + columns.remaining[row] / throughput > columns.arrival[row] + columns.ttft_limit[row]
        )
        if late and columns.phase[row] == WAITING and not relegated[row]:
            relegated[row] = True
        else:
            left -= columns.remaining[row]
    return relegated


@compiled
def least_slack(columns: Columns, decodes: Ints, settings: Settings) -> float:
    """Seconds to the first deadline of a decode in the batch; infinite without one."""
    least = math.inf
    for row in decodes:
        if columns.slack[row] > 0 or not settings.late_unprotected:
            least = min(least, columns.slack[row])
    return least


@compiled
def _chunk(columns: Columns, weights: Weights, room: Room, order: Ints, settings: Settings) -> int:
    """Prefill tokens: the largest total of the grid whose predicted time times 1.2 is within the slack.

    The smallest total if none is, so that prefills always go on. The batch is predicted as one prefill at the
    context of the first in order, as in the artifact.
    """
    slack = least_slack(columns, room.decodes, settings)
    context = 0.0
    for row in room.decodes:
        context += columns.cached[row]
    head = float(columns.cached[order[0]]) if len(order) > 0 else 0.0
    decodes = len(room.decodes)
    limit = min(columns.max_tokens, settings.budget) if settings.budget > 0 else columns.max_tokens
    place, total = 0, grid_total(0, columns.free_kv_tokens, limit, settings)
    while True:
        place += 1
        following = grid_total(place, columns.free_kv_tokens, limit, settings)
        if following <= total:
            break
        chunk = float(max(following - decodes, 0))
        batch = Features(
            chunk * (head + chunk), chunk * chunk, head + context, float(decodes), context, chunk, chunk
        )
        if settings.pred_threshold * predict(weights, batch) > slack:
            break
        total = following
    return max(total - decodes, 0)


@compiled
def grid_total(place: int, free_kv_tokens: int, limit: int, settings: Settings) -> int:
    """The grid's total at that place, ascending, at most `limit`; past its end it repeats its last.

    Artifact: 128, 256, 512, ... 2048, 2552; with scarce cache 128, 256, 384, 512. Rescaled with smallest g:
    g, 2g, 4g, 6g, ... up to the limit; with scarce cache g, 2g, 3g, ... up to 512.
    """
    smallest = 128 if settings.grid_artifact else settings.grid_smallest
    scarce = free_kv_tokens < SCARCE_KV_TOKENS
    if scarce:
        return min(smallest * (place + 1), SCARCE_LARGEST, limit)
    total = smallest if place == 0 else 2 * smallest * place
    if settings.grid_artifact and place >= 9:
        total = ARTIFACT_LARGEST
    return min(total, limit)
