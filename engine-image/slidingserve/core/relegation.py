"""Above capacity, beyond the paper: requests that cannot keep their promise stand behind all others.

Between the sorter and the rest of a round, with `overload="relegate"`. QoServe relegates a request whose own
prefill no longer fits its deadline; here that of all before it in service order counts too, so that a queue
that cannot be served whole is cut where it stops fitting (docs/method.md has what each choice is worth).
"""

from __future__ import annotations

import numpy as np

from slidingserve.core.batch import WAITING
from slidingserve.core.columns import Bools, Columns, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.sorter import measured_throughput


@compiled
def relegate(columns: Columns, order: Ints, weights: Weights) -> Bools:
    """Shape n: the relegated from now on; the caller keeps the flags for the requests' lives.

    Row i of `order` joins them if it waits and (r_i + all that is before it) / rho > s_i, the test of
    equation 10 with the queue's work in it. What it needed then no longer stands before the others. Requests
    that have begun are never relegated: what was spent on them would be lost.
    """
    throughput = measured_throughput(columns, weights)
    relegated = columns.relegated.copy()
    work = 0.0
    for row in order:
        if relegated[row]:
            continue
        if columns.phase[row] == WAITING and work + columns.remaining[row] > throughput * columns.slack[row]:
            relegated[row] = True
        else:
            work += columns.remaining[row]
    return relegated


@compiled
def behind(order: Ints, relegated: Bools) -> Ints:
    """The rows of `order` with the relegated last, each part in its order."""
    out = np.empty(len(order), np.int64)
    count = 0
    for last in (False, True):
        for row in order:
            if relegated[row] == last:
                out[count] = row
                count += 1
    return out


@compiled
def hopeful(rows: Ints, relegated: Bools) -> Ints:
    """The rows that are not relegated."""
    out = np.empty(len(rows), np.int64)
    count = 0
    for row in rows:
        if not relegated[row]:
            out[count] = row
            count += 1
    return out[:count]
