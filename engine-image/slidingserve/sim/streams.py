"""Random numbers by seed and purpose: a stream that is drawn more of never moves another."""

from __future__ import annotations

import numpy as np

from slidingserve.core.columns import Floats

NOISE, OFFLINE = 1, 2
_BLOCK = 1 << 16


def generator(seed: int, purpose: int) -> np.random.Generator:
    """The stream of one purpose."""
    return np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), purpose]))


def batch_noise(seed: int, sigma: float) -> Floats:
    """Factors on the times of batches, lognormal with median 1: entry i belongs to batch i, and after 65,536
    they repeat."""
    return np.exp(sigma * generator(seed, NOISE).standard_normal(_BLOCK))
