"""The model: T = b + sum of w x, with weights for all batches and for each scene with enough samples.

Immutable, so that a refresh swaps one reference (section 3.2: hot swap). The policies see only `Predictor`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.features import Features, Scene

FLOOR_SECONDS = 1e-4
"""No batch is predicted to take less: a division or a search by a prediction stays finite."""


class Predictor(Protocol):
    """Anything that foretells a batch's time."""

    def predict(self, features: Features) -> float:
        """Seconds that the batch should take, above 0, never less for larger features of the same scene."""
        ...


@dataclass(frozen=True)
class Weights:
    """Intercept (seconds) and seven slopes (seconds a unit of `Features`).

    The robust fit makes none of them negative; the paper's plain least squares may.
    """

    bias: float
    slopes: tuple[float, float, float, float, float, float, float]

    def __post_init__(self) -> None:
        """Refuse what is no number. Raises ValueError."""
        values = (self.bias, *self.slopes)
        if len(values) != 8 or not all(math.isfinite(v) for v in values):
            raise ValueError(f"weights: {values} must be eight finite numbers; calibrate again")

    @property
    def monotone(self) -> bool:
        """Whether more work never makes a prediction fall."""
        return min(self.bias, *self.slopes) >= 0


@dataclass(frozen=True)
class LatencyModel:
    """Equation 5 for every scene m: the scene's own weights where it has them, else the global ones."""

    everywhere: Weights
    experts: Mapping[Scene, Weights] = field(default_factory=dict)

    def weights(self, scene: Scene) -> Weights:
        """The expert of a scene, or the global weights."""
        return self.experts.get(scene, self.everywhere)

    def predict(self, features: Features) -> float:
        """Seconds, at least `FLOOR_SECONDS`."""
        weights = self.experts.get(features.scene, self.everywhere)
        w1, w2, w3, w4, w5, w6, w7 = weights.slopes
        x1, x2, x3, x4, x5, x6, x7 = features
        seconds = weights.bias + w1 * x1 + w2 * x2 + w3 * x3 + w4 * x4 + w5 * x5 + w6 * x6 + w7 * x7
        return seconds if seconds > FLOOR_SECONDS else FLOOR_SECONDS

    @property
    def monotone(self) -> bool:
        """Whether a prediction never falls with more work of the same scene."""
        return all(weights.monotone for weights in (self.everywhere, *self.experts.values()))

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """What compiled policies read, shape (3, 8): by scene (decode, prefill, mixed) b, w1 to w7.

        Never written to. It is not marked so, for that would be another type, compiled once more.
        """
        weights = [self.weights(scene) for scene in Scene]
        return np.array([[w.bias, *w.slopes] for w in weights], np.float64)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object: {"global": [b, w1..w7], "experts": {scene: [b, w1..w7]}}."""
        return {
            "global": [self.everywhere.bias, *self.everywhere.slopes],
            "experts": {scene.value: [w.bias, *w.slopes] for scene, w in self.experts.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LatencyModel:
        """The inverse of `to_json`. Raises ValueError (or KeyError, TypeError) on anything else."""
        experts = {Scene(name): _weights(values) for name, values in document["experts"].items()}
        return cls(_weights(document["global"]), experts)


def _weights(values: Any) -> Weights:
    bias, *slopes = (float(value) for value in values)
    if len(slopes) != 7:
        raise ValueError(f"weights: {len(slopes)} slopes where 7 belong; calibrate again")
    return Weights(bias, tuple(slopes))  # type: ignore[arg-type]  # the length was just checked
