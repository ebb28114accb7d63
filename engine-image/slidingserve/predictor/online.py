"""Measured batches in, a fresh model out (section 3.2, online updates and hot swap).

`Samples` is a bounded window that keeps what is recent and what is rare; `fit` makes a model of it;
`OnlinePredictor` holds both for the adapter, whose thread calls `refit` every so often. No clock and no
thread here.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.features import Features, Scene
from slidingserve.predictor.model import FLOOR_SECONDS, LatencyModel
from slidingserve.predictor.nnls import fit_weights

CELL_SAMPLES = 16
MAX_CELLS = 128
EXPERT_SAMPLES = 32
"""A scene gets its own weights from so many samples on."""
_FEWEST_SAMPLES = 4
_HALF_LIFE = 128
_LEAST_IMPORTANCE = 0.02
_LONGEST_SECONDS = 3600.0
_STRAY = 3.0

_SCENES = tuple(Scene)


class Window(NamedTuple):
    """The samples at one moment, n of them."""

    scene: NDArray[np.int64]
    """Index into the scenes, shape n."""
    features: NDArray[np.float64]
    """Shape (n, 7)."""
    seconds: NDArray[np.float64]
    """Shape n."""
    importance: NDArray[np.float64]
    """Halves every `_HALF_LIFE` samples of the same scene, down to a floor; shape n."""


class Quality(NamedTuple):
    """How a model fits the samples of one scene."""

    samples: int
    r2: float
    """Share of the variance that the model explains, strays left out; 0 if the times never varied."""
    mae_s: float
    """Mean absolute error, seconds, strays left out."""
    under_share: float
    """Share of batches that took longer than predicted."""
    stray_share: float
    """Share of batches off by a factor of more than `_STRAY`: a stall, not the model's business."""


class Samples:
    """A bounded window: the last few samples of every kind of batch, the kinds by scene and rough sizes.

    A steady load repeats one kind for hours; a plain ring would forget by it how every other batch behaves,
    which is what a plan for a new load asks. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: OrderedDict[tuple[int, ...], deque[tuple[float, ...]]] = OrderedDict()
        self._seen = [0] * len(_SCENES)
        self.total = 0
        """All samples ever taken, also those no longer held."""

    def append(self, features: Features, seconds: float) -> bool:
        """Keep a measured batch; False if it is none (no tokens, or a time that cannot be). Microseconds."""
        if not 0 < seconds <= _LONGEST_SECONDS or not math.isfinite(sum(features)):
            return False
        if not features.prefill_tokens + features.decode_requests > 0:
            return False
        scene = _SCENES.index(features.scene)
        cell = (
            scene,
            int(features.prefill_tokens).bit_length(),
            int(features.decode_requests).bit_length(),
            int(features.cached_tokens).bit_length() // 2,
        )
        with self._lock:
            self._seen[scene] += 1
            self.total += 1
            kept = self._cells.setdefault(cell, deque(maxlen=CELL_SAMPLES))
            kept.append((scene, self._seen[scene], seconds, *features))
            self._cells.move_to_end(cell)
            if len(self._cells) > MAX_CELLS:
                self._cells.popitem(last=False)
        return True

    def window(self) -> Window:
        """A copy of what is held now."""
        with self._lock:
            rows = [row for cell in self._cells.values() for row in cell]
            seen = np.array(self._seen)
        table = np.array(rows, np.float64).reshape(-1, 10)
        scene = table[:, 0].astype(np.int64)
        age = seen[scene] - table[:, 1]
        importance = np.maximum(0.5 ** (age / _HALF_LIFE), _LEAST_IMPORTANCE)
        return Window(scene, table[:, 3:], table[:, 2], importance)


def fit(window: Window, prior: LatencyModel) -> LatencyModel | None:
    """A model of the window: global weights from all of it, an expert for each scene with enough samples.

    `prior` is the model so far; it fills in what the samples leave open (see `nnls`), and each expert's prior
    is the new global model. None with too few samples to say anything.
    """
    if len(window.seconds) < _FEWEST_SAMPLES:
        return None
    everywhere = fit_weights(window.features, window.seconds, window.importance, prior.everywhere)
    experts = {}
    for index, scene in enumerate(_SCENES):
        rows = window.scene == index
        if rows.sum() >= EXPERT_SAMPLES:
            columns = window.features[rows], window.seconds[rows], window.importance[rows]
            experts[scene] = fit_weights(*columns, everywhere)
        elif scene in prior.experts:
            experts[scene] = prior.experts[scene]
    return LatencyModel(everywhere, experts)


def predict_all(model: LatencyModel, window: Window) -> NDArray[np.float64]:
    """`model.predict` for every sample of a window, shape n."""
    weights = [model.weights(scene) for scene in _SCENES]
    slopes = np.array([w.slopes for w in weights])
    bias = np.array([w.bias for w in weights])
    seconds = bias[window.scene] + (slopes[window.scene] * window.features).sum(axis=1)
    floored: NDArray[np.float64] = np.maximum(seconds, FLOOR_SECONDS)
    return floored


def quality(model: LatencyModel, window: Window) -> dict[str, Quality]:
    """R2, mean absolute error and share of under-predictions by scene, for scenes that have samples.

    None of these proves a predictor's use (docs/method.md); they show when one is wrong.
    """
    predicted = predict_all(model, window)
    report = {}
    for index, scene in enumerate(_SCENES):
        rows = window.scene == index
        if not rows.any():
            continue
        factor = window.seconds[rows] / predicted[rows]
        usual = (factor < _STRAY) & (factor > 1 / _STRAY)
        measured, error = window.seconds[rows][usual], (window.seconds - predicted)[rows][usual]
        spread = float(((measured - measured.mean()) ** 2).sum()) if usual.any() else 0.0
        report[scene.value] = Quality(
            samples=int(rows.sum()),
            r2=1 - float((error**2).sum()) / spread if spread > 1e-12 else 0.0,
            mae_s=float(np.abs(error).mean()) if usual.any() else 0.0,
            under_share=float((factor > 1).mean()),
            stray_share=1 - float(usual.mean()),
        )
    return report


class OnlinePredictor:
    """The model in force and the samples for the next: the engine's loop observes, a thread refits."""

    def __init__(self, model: LatencyModel, *, calibrated: bool = False) -> None:
        """Start with a default model, or with a stored profile's (`calibrated=True`)."""
        self.model = model
        """The model in force: an immutable object, swapped by reference. Take it once a round."""
        self.calibrated = calibrated
        """Whether the model rests on measured batches."""
        self._samples = Samples()
        self._refitting = threading.Lock()
        self._fitted_at = 0
        self._quality: dict[str, Quality] = {}

    @property
    def samples(self) -> int:
        """Batches observed so far."""
        return self._samples.total

    def observe(self, features: Features, seconds: float) -> bool:
        """Take a batch as it was really run and how long it took; False if that cannot be a batch."""
        return self._samples.append(features, seconds)

    def refit(self) -> bool:
        """Fit a new model and put it in force, unless it is worse on the recent samples. True if it was put
        in force.

        Raises nothing that the samples could cause; takes some milliseconds.
        """
        with self._refitting:
            total = self._samples.total
            if total == self._fitted_at:
                return False
            window = self._samples.window()
            new = fit(window, self.model)
            if new is None:
                return False
            self._fitted_at = total
            better = _error(new, window) <= _error(self.model, window)
            if better:
                self.model, self.calibrated = new, True
            self._quality = quality(self.model, window)
            return better

    def quality(self) -> dict[str, dict[str, float]]:
        """`Quality` of the model in force by scene, as JSON objects, as of the last `refit`."""
        return {scene: dict(report._asdict()) for scene, report in self._quality.items()}


def _error(model: LatencyModel, window: Window) -> float:
    """Mean relative error by importance, each at most 1 so that stray steps do not decide."""
    relative = np.minimum(np.abs(window.seconds / predict_all(model, window) - 1), 1.0)
    return float(np.average(relative, weights=window.importance))
