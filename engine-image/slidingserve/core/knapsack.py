"""The 0/1 knapsack of equation 19, by dynamic programming over a table of bounded size."""

from __future__ import annotations

import numpy as np

from slidingserve.core.columns import Bools, Floats, Ints
from slidingserve.core.compiled import compiled

MOST_CELLS = 2048
"""Columns of the table. A capacity that would need more gets a larger quantum."""
FINE_CELLS = 128
"""Where the quantum would leave fewer columns, cells are smaller: so many cost little and lose less."""


@compiled
def cell_size(capacity: int, quantum: int) -> int:
    """Tokens a cell: the quantum, less for small capacities, more for those beyond `MOST_CELLS` columns."""
    finer = (capacity + FINE_CELLS - 1) // FINE_CELLS
    least = (capacity + MOST_CELLS - 1) // MOST_CELLS
    return max(min(quantum, finer), least, 1)


@compiled
def knapsack(weights: Ints, values: Floats, capacity: int, quantum: int) -> Bools:
    """Which of k items to take, shape k: the most value (above 0 each) with weights up to `capacity`.

    Weights are counted in cells of at most `quantum` tokens, rounded up, so what is taken always fits. Exact
    with quantum 1 up to `MOST_CELLS` tokens, and with any up to `FINE_CELLS`. Among equal values the earlier
    items are kept.
    """
    k = len(weights)
    taken = np.zeros(k, np.bool_)
    if weights.sum() <= capacity:
        taken[:] = True
        return taken
    size = cell_size(capacity, quantum)
    cells = capacity // size
    best = np.zeros(cells + 1)
    better = np.zeros((k, cells + 1), np.bool_)
    for i in range(k):
        weight = (weights[i] + size - 1) // size
        for cell in range(cells, weight - 1, -1):
            value = best[cell - weight] + values[i]
            if value > best[cell]:
                best[cell] = value
                better[i, cell] = True
    cell = cells
    for i in range(k - 1, -1, -1):
        if better[i, cell]:
            taken[i] = True
            cell -= (weights[i] + size - 1) // size
    return taken
