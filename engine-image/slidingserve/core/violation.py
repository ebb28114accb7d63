"""The Violation Checker (Figure 3, step 5): would the maximal batch cost a request its first token in time?

It stands between the sorter and the two ways to make a batch: without a risk the SlidingChunker sizes it,
with one the BatchConstructor chooses it.
"""

from __future__ import annotations

import math

from slidingserve.core.columns import Columns, Ints
from slidingserve.core.compiled import compiled
from slidingserve.core.forwarder import Forwarder, largest_budget, pred
from slidingserve.core.settings import Settings


@compiled
def full_seconds(forwarder: Forwarder, limit: int, settings: Settings) -> float:
    """T_full, line 1 of Algorithm 2: seconds of the batch of at most `limit` tokens, with the margin."""
    return pred(forwarder, min(limit, largest_budget(forwarder))) * settings.margin


@compiled
def at_risk(columns: Columns, prefills: Ints, full: float) -> bool:
    """Whether R_risk of line 6 has a member: a prefill with less slack than the maximal batch takes."""
    least = math.inf
    for row in prefills:
        least = min(least, columns.slack[row])
    return least < full
