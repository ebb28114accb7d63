"""How good predictions were, by scene and overall: what the paper reports of its predictor, and more.

For people and reports. None of these numbers proves that a predictor is useful for scheduling: models of
equal R2 and mean error have been seen to differ several times in goodput (docs/method.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.features import Scene

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STRAY = 3.0
"""A batch that is off by a factor of more was a stall, not the model's business."""
OVERALL = "overall"


class Quality(NamedTuple):
    """How predictions fit the measured batches of one scene, or of all."""

    samples: int
    r2: float
    """Share of the variance that the predictions explain; 0 if the times never varied."""
    mae_s: float
    """Mean absolute error, seconds."""
    rmse_s: float
    """Root of the mean squared error, seconds."""
    mae_share: float
    """Mean absolute error over the mean batch: what an error means for a margin."""
    under_share: float
    """Share of batches that took longer than predicted."""
    stray_share: float
    """Share of batches that were left out of all but `under_share` as strays."""


def score(predicted: Floats, seconds: Floats, scene: Ints, *, stray: float = math.inf) -> dict[str, Quality]:
    """`Quality` by scene, and as "overall" of all; only of scenes that have samples.

    `predicted`, `seconds`, `scene` (index into the scenes): shape n. Samples off by a factor of more than
    `stray` are left out of the errors; by default none is, as in the paper.
    """
    report = {}
    for index, name in enumerate([member.value for member in Scene]):
        rows = scene == index
        if rows.any():
            report[name] = _one(predicted[rows], seconds[rows], stray)
    if len(seconds):
        report[OVERALL] = _one(predicted, seconds, stray)
    return report


def _one(predicted: Floats, seconds: Floats, stray: float) -> Quality:
    factor = seconds / predicted
    usual = (factor < stray) & (factor > 1 / stray)
    measured, error = seconds[usual], (seconds - predicted)[usual]
    count = len(measured)
    spread = float(((measured - measured.mean()) ** 2).sum()) if count else 0.0
    squares = float((error**2).sum())
    mae = float(np.abs(error).mean()) if count else 0.0
    return Quality(
        samples=len(seconds),
        r2=1 - squares / spread if spread > 1e-12 else 0.0,
        mae_s=mae,
        rmse_s=math.sqrt(squares / count) if count else 0.0,
        mae_share=mae / float(measured.mean()) if count else 0.0,
        under_share=float((factor > 1).mean()),
        stray_share=1 - count / len(seconds),
    )
