"""Measured batches in, a fresh model out (section 3.2, online updates and hot swap).

`Samples` is a bounded window that keeps what is recent and what is rare; `fit` makes a model of it;
`OnlinePredictor` holds both for the adapter, whose thread calls `refit` every so often. No clock and no
thread here.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidingserve.predictor.features import Features, Scene
from slidingserve.predictor.least_squares import least_squares
from slidingserve.predictor.model import FLOOR_SECONDS, LatencyModel, Weights
from slidingserve.predictor.nnls import fit_weights
from slidingserve.predictor.quality import STRAY, Quality, score

Method = Literal["robust", "ols"]
Floats = NDArray[np.float64]

CELL_SAMPLES = 16
MAX_CELLS = 128
EXPERT_SAMPLES = 32
"""A scene gets its own weights from so many samples on."""
_FEWEST_SAMPLES = {"robust": 4, "ols": 16}
"""Plain least squares has eight unknowns and no prior: with fewer samples it would fit their noise."""
_HALF_LIFE = 128
_LEAST_IMPORTANCE = 0.02
_LONGEST_SECONDS = 3600.0

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


def fit(
    window: Window,
    prior: LatencyModel,
    method: Method = "robust",
    expert_samples: int = EXPERT_SAMPLES,
) -> LatencyModel | None:
    """A model of the window: global weights from all of it, an expert for each scene that has
    `expert_samples`.

    `prior` is the model so far. "robust" (`nnls`) lets it fill in what the samples leave open, each expert's
    prior is the new global model, and nothing is negative; "ols" (`least_squares`) is the paper's fit, which
    takes every sample for what it is. A scene with too few samples keeps the expert it had. None with too
    few samples to say anything.
    """
    if len(window.seconds) < _FEWEST_SAMPLES[method]:
        return None
    columns = window.features, window.seconds, window.importance
    everywhere = _weights(*columns, prior.everywhere, method)
    experts = {}
    for index, scene in enumerate(_SCENES):
        rows = window.scene == index
        if rows.sum() >= expert_samples:
            features, seconds, importance = (column[rows] for column in columns)
            experts[scene] = _weights(features, seconds, importance, everywhere, method)
        elif scene in prior.experts and (method == "ols" or prior.experts[scene].monotone):
            experts[scene] = prior.experts[scene]
    return LatencyModel(everywhere, experts)


def _weights(
    features: Floats, seconds: Floats, importance: Floats, prior: Weights, method: Method
) -> Weights:
    if method == "ols":
        return least_squares(features, seconds)
    return fit_weights(features, seconds, importance, prior)


def predict_all(model: LatencyModel, window: Window) -> NDArray[np.float64]:
    """`model.predict` for every sample of a window, shape n."""
    weights = [model.weights(scene) for scene in _SCENES]
    slopes = np.array([w.slopes for w in weights])
    bias = np.array([w.bias for w in weights])
    seconds = bias[window.scene] + (slopes[window.scene] * window.features).sum(axis=1)
    floored: NDArray[np.float64] = np.maximum(seconds, FLOOR_SECONDS)
    return floored


def quality(model: LatencyModel, window: Window) -> dict[str, Quality]:
    """R2, errors and share of under-predictions by scene and overall, without strays; see `Quality`."""
    return score(predict_all(model, window), window.seconds, window.scene, stray=STRAY)


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
        self._fitted_by: tuple[Method, int] | None = None
        self._quality: dict[str, Quality] = {}

    @property
    def samples(self) -> int:
        """Batches observed so far."""
        return self._samples.total

    def observe(self, features: Features, seconds: float) -> bool:
        """Take a batch as it was really run and how long it took; False if that cannot be a batch."""
        return self._samples.append(features, seconds)

    def refit(self, method: Method = "robust", expert_samples: int = EXPERT_SAMPLES) -> bool:
        """Fit a new model and put it in force, unless it is worse on the recent samples by its own measure.
        True if it was put in force.

        The first fit by another `method` than the last is taken in any case. Raises nothing that the samples
        could cause; takes some milliseconds.
        """
        with self._refitting:
            total, wanted = self._samples.total, (method, expert_samples)
            if total == self._fitted_at and wanted == self._fitted_by:
                return False
            window = self._samples.window()
            new = fit(window, self.model, method, expert_samples)
            if new is None:
                return False
            other = self._fitted_by is not None and wanted != self._fitted_by
            self._fitted_at, self._fitted_by = total, wanted
            better = other or _error(new, window, method) <= _error(self.model, window, method)
            if better:
                self.model, self.calibrated = new, True
            self._quality = quality(self.model, window)
            return better

    def quality(self) -> dict[str, dict[str, float]]:
        """`Quality` of the model in force by scene and overall, as JSON objects, as of the last `refit`."""
        return {scene: dict(report._asdict()) for scene, report in self._quality.items()}


def _error(model: LatencyModel, window: Window, method: Method) -> float:
    """Mean error by importance, as the method weighs errors: relative, or in seconds ("ols").

    Each is at most the sample itself, so that stray steps do not decide.
    """
    error = np.minimum(np.abs(window.seconds - predict_all(model, window)), window.seconds)
    if method == "robust":
        error = np.minimum(np.abs(window.seconds / predict_all(model, window) - 1), 1.0)
    return float(np.average(error, weights=window.importance))
