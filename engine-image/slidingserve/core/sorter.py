"""The Multi-Level Priority Sorter (section 3.3): in which order prefills are offered the budget.

Three levels: safeguarded requests first, then urgent ones (those whose remaining work is large for the time
they have left), then the shortest remaining prefill. First decision of a round; the forwarder fills batches
in this order.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from slidingserve.core.snapshot import Floats, Ints, Snapshot


def urgency(snapshot: Snapshot, throughput: float, epsilon: float) -> Floats:
    """u_i(t) = r / (ρ max(s, ε)), shape n (equation 10): the share of its slack that a prefill needs.

    `throughput` is ρ in tokens a second, above 0; `epsilon` is ε in seconds. Above 1 no order can save the
    request; past the deadline it is huge, because the slack is clipped at ε.
    """
    return snapshot.remaining / (throughput * np.maximum(snapshot.slack, epsilon))


def sort_prefills(
    snapshot: Snapshot,
    *,
    alpha: float,
    throughput: float,
    epsilon: float = 0.001,
    late: Literal["last", "paper_equation"] = "last",
) -> Ints:
    """Rows of all prefilling and waiting requests, first served first (equations 6, 12 and 13).

    `late="last"` puts requests past their deadline behind all others, safeguarded or not, as section 5.2
    says; "paper_equation" takes equation 10 as printed, by which they are the most urgent of their level.
    Equal keys are ordered by arrival, then by row, so that the order is total.
    """
    rows = np.flatnonzero(~snapshot.is_decode)
    normal = urgency(snapshot, throughput, epsilon)[rows] <= alpha
    keys = [snapshot.arrival[rows], snapshot.remaining[rows], normal, ~snapshot.safeguard[rows]]
    if late == "last":
        keys.append(snapshot.slack[rows] <= 0)
    return rows[np.lexsort(keys)]  # the last key is the first criterion; lexsort is stable
