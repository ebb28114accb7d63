"""Plain least squares on absolute seconds: the paper's fit (section 3.2), beside our robust one (`nnls`).

It minimises what the paper reports (R2, mean and root mean squared error) and bounds nothing: a slope may be
negative, so that more work can be predicted to take less, and a stall of a second moves every weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.model import Weights

Floats = NDArray[np.float64]

_RANK = 1e-9
"""Directions whose singular value is below this share of the largest are noise, not data."""


def least_squares(features: Floats, seconds: Floats) -> Weights:
    """b and w of equation 5 with the least sum of squared errors; features (n, 7), seconds (n,), n from 1.

    Columns are centred and scaled first, so that squares of tokens and counts of requests are solved alike.
    Where columns always moved together (or never moved), of all best fits the one with the smallest scaled
    weights: they share the effect, and what never varied has none.
    """
    means = features.mean(axis=0)
    centred = features - means
    scale = np.sqrt((centred**2).mean(axis=0))
    seen = scale > _RANK * np.maximum(np.abs(means), 1.0)
    slopes = np.zeros(features.shape[1])
    if seen.any():
        solution = np.linalg.lstsq(centred[:, seen] / scale[seen], seconds - seconds.mean(), rcond=_RANK)[0]
        slopes[seen] = solution / scale[seen]
    w1, w2, w3, w4, w5, w6, w7 = slopes.tolist()
    return Weights(float(seconds.mean() - slopes @ means), (w1, w2, w3, w4, w5, w6, w7))
