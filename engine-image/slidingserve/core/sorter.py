"""The Multi-Level Priority Sorter (section 3.3): in which order prefills are offered the budget.

Three levels: safeguarded requests first, then urgent ones (those whose remaining work is large for the time
they have left), then the shortest remaining prefill. First decision of a round; the forwarder fills batches
in this order. Beside it stand the orders of the baselines.
"""

from __future__ import annotations

import numpy as np

from slidingserve.core.batch import DECODE, predict
from slidingserve.core.columns import Columns, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.ordering import sort_rows
from slidingserve.core.settings import Settings
from slidingserve.predictor.features import Features


@compiled
def prefill_rows(columns: Columns) -> Ints:
    """P_t of equation 6: rows of all prefilling and waiting requests, in the engine's own order."""
    rows = np.empty(len(columns.phase), np.int64)
    count = 0
    for i in range(len(columns.phase)):
        if columns.phase[i] != DECODE:
            rows[count] = i
            count += 1
    return rows[:count]


@compiled
def by_deadline(columns: Columns) -> Ints:
    """P_t by earliest first-token deadline a + L_ttft, ties by arrival: EDF. Late ones come first by it."""
    level = np.zeros(len(columns.phase), np.int64)
    return sort_rows(prefill_rows(columns), level, columns.arrival + columns.ttft_limit, columns.arrival)


@compiled
def urgency(remaining: int, slack: float, throughput: float, epsilon: float) -> float:
    """u_i(t) = r / (rho max(s, epsilon)) of equation 10: the share of its slack that a prefill needs.

    `throughput`: rho in tokens a second, above 0; `slack` and `epsilon` in seconds. Above 1 no order can save
    the request; past the deadline it is huge, because the slack is clipped at epsilon.
    """
    return remaining / (throughput * max(slack, epsilon))


@compiled
def measured_throughput(columns: Columns, weights: Weights) -> float:
    """Rho: as measured lately, or before anything was, what a full batch of prefill should reach."""
    if columns.throughput > 0:
        return columns.throughput
    n = float(columns.max_tokens)
    return n / predict(weights, Features(n * n, n * n, 0.0, 0.0, 0.0, n, n))


@compiled
def by_priority(columns: Columns, weights: Weights, settings: Settings) -> Ints:
    """Q_t of equation 13: P_t in ascending order of K_i = (1 - g_i, 1 - e_i, r_i), equations 11 and 12.

    `late_last` puts requests past their deadline behind all others, safeguarded or not, as section 5.2 says;
    else equation 10 holds as printed, by which they are the most urgent of their level. Equal keys are
    ordered by arrival, then by row, so that the order is total.
    """
    throughput = measured_throughput(columns, weights)
    rows = prefill_rows(columns)
    level = np.zeros(len(columns.phase), np.int64)
    for row in rows:
        slack = columns.slack[row]
        pressed = urgency(columns.remaining[row], slack, throughput, settings.epsilon)
        if settings.late_last and slack <= 0:
            level[row] += 4
        if not columns.safeguard[row]:
            level[row] += 2
        if pressed <= settings.alpha:
            level[row] += 1
    return sort_rows(rows, level, columns.remaining.astype(np.float64), columns.arrival)
