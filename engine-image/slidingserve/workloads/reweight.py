"""Length pairs with the paper's statistics, out of public pools with others.

Used by ``build`` alone, when the data files are made. The paper's own subsets of ShareGPT and
arXiv-Summarization are not public; Table 2 gives mean and P90 of prompts and outputs. Of all weightings of
a pool that meet those four numbers we take the one nearest to the pool itself (maximum entropy), so that
what Table 2 leaves open (shape, correlation) stays as it was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.int64]
"""Shape (rows, 2): prompt tokens, output tokens."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A column of Table 2, in tokens."""

    prompt_mean: float
    prompt_p90: float
    output_mean: float
    output_p90: float


TABLE_2 = {
    "sharegpt": Statistics(357, 1724, 89, 184),
    "arxiv_v1": Statistics(3253, 4382, 356, 542),
    "arxiv_v2": Statistics(6267, 7567, 423, 623),
}


def reweighted(pool: Pairs, target: Statistics, rows: int) -> tuple[Pairs, float]:
    """``rows`` pairs that meet ``target``, drawn without chance; and the effective size of the weights."""
    # One row less than nine tenths: the percentile of the sample then lies on the first row past the mark.
    weights = tilt(pool, target, 0.9 - 1.0 / rows)
    # Every pair stands in the sample as often as its weight says, rounded along this order: the two shares
    # above a P90 come out exact, and so does the distribution of prompts.
    order = np.lexsort((pool[:, 1], pool[:, 0], pool[:, 1] > target.output_p90))
    ends = np.cumsum(weights[order])
    picked = order[np.searchsorted(ends / ends[-1], (np.arange(rows) + 0.5) / rows)]
    return pool[picked], float(1.0 / np.sum(weights**2))


def tilt(pool: Pairs, target: Statistics, share: float = 0.9) -> NDArray[np.float64]:
    """Weights of the pool's rows, summing to 1: exp(lambda . f), f = lengths and their indicators of P90.

    ``share`` of the weight lies at or below each P90.
    Newton's method on the dual, log(mean(exp(lambda . (f - target)))), which is convex.
    """
    prompts, outputs = pool[:, 0].astype(np.float64), pool[:, 1].astype(np.float64)
    wanted = np.array([target.prompt_mean, target.output_mean, share, share])
    scale = np.array([target.prompt_mean, target.output_mean, 1.0, 1.0])
    features = np.stack(
        [prompts, outputs, prompts <= target.prompt_p90, outputs <= target.output_p90], axis=1
    )
    f = (features - wanted) / scale
    lambdas = np.zeros(4)

    def dual(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        exponent = f @ at
        top = exponent.max()
        raw = np.exp(exponent - top)
        return float(top + np.log(raw.sum())), raw / raw.sum()

    value, weights = dual(lambdas)
    for _ in range(200):
        gradient = weights @ f
        if np.abs(gradient).max() < 1e-10:
            return weights
        centred = f - gradient
        step = np.linalg.solve((centred * weights[:, None]).T @ centred + 1e-9 * np.eye(4), gradient)
        size = 1.0
        while (trial := dual(lambdas - size * step))[0] > value and size > 1e-6:
            size /= 2
        lambdas, (value, weights) = lambdas - size * step, trial
    raise ValueError(f"no weighting of the pool meets {target}")
