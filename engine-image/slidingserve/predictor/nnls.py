"""Least squares with slopes that are never negative, robust against outliers, sane with collinear features.

The arithmetic below `online.fit`: plain numpy, eight unknowns, so a fit over two thousand samples takes
milliseconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.model import FLOOR_SECONDS, Weights

Floats = NDArray[np.float64]

_ROUNDS = 8
_HUBER = 1.345
_SCALE_FLOOR = 0.05
"""Relative residuals below this have full weight: a linear model misses real kernels by as much."""
_RIDGE = 0.01
"""Weight of the prior, in samples: so small that it decides only what the data leave open."""


def solve_nonnegative(gram: Floats, right: Floats) -> Floats:
    """Minimise w G w / 2 - right w over w >= 0, for a positive definite G of shape (k, k); Lawson and
    Hanson's method.

    Returns w of shape k. Cannot cycle: every round of the outer loop lowers the objective, and the sets are
    finite; the count of rounds is bounded all the same.
    """
    size = len(right)
    solution = np.zeros(size)
    active = np.zeros(size, bool)
    for _ in range(3 * size):
        gradient = np.where(active, -np.inf, right - gram @ solution)
        entering = int(gradient.argmax())
        if gradient[entering] <= 1e-10 * max(1.0, float(np.abs(right).max())):
            break
        active[entering] = True
        while True:
            rows = np.flatnonzero(active)
            trial = np.zeros(size)
            trial[rows] = np.linalg.solve(gram[np.ix_(rows, rows)], right[rows])
            negative = active & (trial <= 0)
            if not negative.any():
                solution = trial
                break
            # Walk towards the trial until the first weight reaches zero, and let that one go.
            step = (solution[negative] / (solution[negative] - trial[negative])).min()
            solution = np.maximum(solution + step * (trial - solution), 0)
            active &= solution > 0
    return solution


def fit_weights(features: Floats, seconds: Floats, importance: Floats, prior: Weights) -> Weights:
    """Fit b and w of equation 5 to measured batches.

    `features`: shape (n, 7). `seconds`: measured, shape n, above 0. `importance`: weight of each sample,
    shape n.

    Relative errors are minimised, because a margin and a slack are shares of a batch's time. Huber weights
    bound what a stray slow step can do. What the samples leave open (a feature that never varied, two that
    always moved together, fewer samples than unknowns) is taken from `prior`, scaled as a whole to the level
    of the samples: a model of other hardware is still right about proportions.
    """
    design = np.column_stack([np.ones(len(seconds)), features])
    # A prior by the paper's plain fit may have weights below zero; ours has none.
    before = np.maximum([prior.bias, *prior.slopes], 0.0)
    predicted = np.maximum(design @ before, FLOOR_SECONDS)
    before = before * _weighted_median(seconds / predicted, importance)
    predicted, robust = seconds, np.ones(len(seconds))
    weights = before
    for _ in range(_ROUNDS):
        rows = design / predicted[:, None]
        emphasis = importance * robust
        # In units in which every column explains the whole prediction on average, one ridge suits all.
        unit = np.sqrt((emphasis @ rows**2) / emphasis.sum())
        seen = unit > 0
        scaled = rows[:, seen] / unit[seen]
        gram = (scaled * emphasis[:, None]).T @ scaled + _RIDGE * np.eye(int(seen.sum()))
        right = scaled.T @ (emphasis * seconds / predicted) + _RIDGE * before[seen] * unit[seen]
        weights = before.copy()
        weights[seen] = solve_nonnegative(gram, right) / unit[seen]
        predicted = np.maximum(design @ weights, FLOOR_SECONDS)
        residual = np.abs(seconds / predicted - 1)
        bound = _HUBER * max(1.4826 * _weighted_median(residual, importance), _SCALE_FLOOR)
        robust = np.minimum(1.0, bound / np.maximum(residual, 1e-12))
    bias, *slopes = weights.tolist()
    return Weights(bias, tuple(slopes))


def _weighted_median(values: Floats, importance: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(importance[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
