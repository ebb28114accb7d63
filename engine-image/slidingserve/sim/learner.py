"""The predictor over a simulated life: an offline start from drawn batches, refits from measured ones.

The engine's own `OnlinePredictor` does the work. All that reaches it is features and noisy times:
the hardware model times the drawn batches, as a GPU would, and is not looked at otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.columns import Floats, Ints
from slidingserve.core.compiled import compiled
from slidingserve.hardware.timing import Timing, batch_seconds
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import Features, batch_features
from slidingserve.predictor.online import OnlinePredictor
from slidingserve.sim.config import PredictorConfig, Resolved
from slidingserve.sim.streams import OFFLINE, generator

_MOST_DECODES = 128
_ORACLE_SAMPLES = 4096


class Range(NamedTuple):
    """Where an engine operates: what its calibration covers."""

    max_tokens: int
    decodes: int
    context: int
    """The longest context, tokens."""


class Learner:
    """One predictor; `weights` are in force until the next `refit`."""

    def __init__(self, config: PredictorConfig, limits: Resolved, timing: Timing, context: int) -> None:
        """`context`: the longest that requests reach, tokens."""
        self._config = config
        self._predictor = OnlinePredictor(config.model or default_model("cuda"))
        if config.model is not None:
            return
        reach = Range(limits.max_tokens, min(limits.max_requests, _MOST_DECODES), max(context, 32))
        sigma = 0.0 if config.oracle else limits.sigma
        count = _ORACLE_SAMPLES if config.oracle else config.samples
        for features, seconds in offline_batches(reach, timing, count, sigma, config.fit_seed):
            self._predictor.observe(features, seconds)
        self._refit()

    @property
    def weights(self) -> Floats:
        """The model in force as compiled policies read it, shape (3, 8)."""
        return self._predictor.model.matrix

    @property
    def refresh_seconds(self) -> float | None:
        """Simulated seconds between refits; None: never."""
        return None if self._config.oracle else self._config.refresh_seconds

    def observe(self, features: Floats, seconds: Floats) -> None:
        """Batches that ended: shape (n, 7) and n."""
        if self.refresh_seconds is None:
            return
        observe = self._predictor.observe
        for row, taken in zip(features.tolist(), seconds.tolist(), strict=True):
            observe(Features(*row), taken)

    def refit(self) -> None:
        """A new model from the latest batches, as the engine's thread makes it."""
        if self.refresh_seconds is not None:
            self._refit()

    def _refit(self) -> None:
        self._predictor.refit(self._config.method, self._config.expert_samples)


def offline_batches(
    reach: Range, timing: Timing, count: int, sigma: float, seed: int
) -> list[tuple[Features, float]]:
    """Batches drawn over the operating range and how long each took: a third decodes, a third prefills, a
    third both."""
    draw = generator(seed, OFFLINE)
    batches = []
    for index in range(count):
        decodes = _contexts(draw, reach) if index % 3 != 1 else np.zeros(0, np.int64)
        tokens, cached = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if index % 3:
            tokens, cached = _chunks(draw, reach, len(decodes))
        seconds = float(_timed(timing, tokens, cached, decodes)) * float(
            np.exp(sigma * draw.standard_normal())
        )
        prefills = zip(tokens.tolist(), cached.tolist(), strict=True)
        batches.append((batch_features(decodes.tolist(), prefills), seconds))
    return batches


def _contexts(draw: np.random.Generator, reach: Range) -> Ints:
    """Up to the most decodes, few as likely as many (log-uniform), each with a context of its own."""
    count = int(reach.decodes ** draw.random())
    return (reach.context ** draw.uniform(0.3, 1.0, count)).astype(np.int64)


def _chunks(draw: np.random.Generator, reach: Range, decodes: int) -> tuple[Ints, Ints]:
    """One to four prefills that share a log-uniform number of tokens; half of them resume a context."""
    room = max(reach.max_tokens - decodes, 16)
    total = int(room ** draw.uniform(0.25, 1.0))
    count = min(int(draw.integers(1, 5)), total)
    cuts = np.sort(draw.choice(np.arange(1, total), count - 1, replace=False)) if count > 1 else ()
    edges = np.array([0, *cuts, total], np.int64)
    tokens = edges[1:] - edges[:-1]
    cached = (reach.context ** draw.uniform(0.3, 1.0, count)).astype(np.int64)
    return tokens, np.where(draw.random(count) < 0.5, 0, cached)


@compiled
def _timed(timing: Timing, tokens: Ints, cached: Ints, decodes: Ints) -> float:
    return batch_seconds(timing, tokens, cached, decodes)
