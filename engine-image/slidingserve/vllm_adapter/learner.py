"""The predictor of one engine core over its life: stored profile or default, calibration, refits, solo times.

`observe` is called in the engine's loop, `calibration` between its steps, `refresh` in the agent's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slidingserve.config import PredictorSettings
from slidingserve.core import throughput
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.features import Features
from slidingserve.predictor.model import LatencyModel
from slidingserve.predictor.online import OnlinePredictor
from slidingserve.predictor.profile import ProfileKey, load_profile, save_profile
from slidingserve.predictor.quality import OVERALL
from slidingserve.predictor.solo import SoloTable
from slidingserve.server.metrics import series
from slidingserve.vllm_adapter.identity import Limits, profile_name

logger = logging.getLogger("vllm.slidingserve")

WARM_UP_BATCHES = 2


class Learner:
    """Holds the model in force, swapped by reference, and all that is derived from it."""

    def __init__(
        self,
        engine: str,
        limits: Limits,
        key: ProfileKey,
        profile_dir: Path | None,
        settings: Callable[[], PredictorSettings] = PredictorSettings,
    ) -> None:
        """`engine`: the label of the metrics. Without `profile_dir` no profile is read or kept.
        `settings`: the live ones, asked when they are needed."""
        self._settings = settings
        self.calibrating = False
        """Batches now are a calibration's: in vLLM's order, and out of the metrics."""
        self._engine = engine
        self._limits = limits
        self._key = key
        self._profile = profile_dir / profile_name(key) if profile_dir is not None else None
        self._learning = True
        self._tried = 0.0
        self._batches = 0
        self._prefill_tokens = 0.0
        self._prefill_seconds = 0.0
        self._predictor = self._first_predictor()
        self._swapped()

    @property
    def model(self) -> LatencyModel:
        """In force; take it once a round."""
        return self._predictor.model

    @property
    def throughput(self) -> float:
        """ρ: prefill tokens a second over the latest batches that had any; 0 before the first."""
        return self._prefill_tokens / self._prefill_seconds if self._prefill_seconds > 0 else 0.0

    def observe(self, features: Features, seconds: float) -> None:
        """A batch was run. A process's first ones, and a calibration's warm-up, teach nothing."""
        self._batches += 1
        if not self._learning or self._batches <= WARM_UP_BATCHES:
            return
        self._predictor.observe(features, seconds)
        self._prefill_tokens, self._prefill_seconds = throughput.update(
            self._prefill_tokens, self._prefill_seconds, float(features.prefill_tokens), seconds
        )

    def calibration(self, phase: str) -> bool:
        """Enter or leave calibration. Returns whether the predictor is calibrated.

        `phase`: "warmup" (teach nothing), "measure", or "end", which fits the model and stores it; anything
        else only asks.
        """
        if phase in ("warmup", "measure", "end"):
            self.calibrating = phase != "end"
            self._learning = phase != "warmup"
        if phase == "end":
            self._refit()
            self._swapped()
            if self._predictor.calibrated and self._profile is not None:
                problem = save_profile(self._profile, self._key, self.model, self._predictor.samples)
                if problem:
                    logger.warning("slidingserve: %s", problem)
        return self._predictor.calibrated

    def refresh(self) -> None:
        """Refit if the last fit, taken or not, is `refreshSeconds` ago and there is something new."""
        if not self.calibrating and time.monotonic() - self._tried >= self._settings().refresh_seconds:
            self._tried = time.monotonic()
            if self._refit():
                self._swapped()
                series("predictor_refreshes", self._engine).inc()
            else:
                self._show_quality()
        series("predictor_age_seconds", self._engine).set(time.monotonic() - self._fitted)

    def _refit(self) -> bool:
        settings = self._settings()
        return self._predictor.refit(settings.method, settings.expert_samples)

    def to_json(self) -> dict[str, Any]:
        """This process's report on it: quality for people, model and solo times for the API servers."""
        found = self._predictor.quality()
        return {
            "predictor": {
                "calibrated": self._predictor.calibrated,
                "samples": self._predictor.samples,
                "method": self._settings().method,
                "refreshSeconds": self._settings().refresh_seconds,
                "ageSeconds": round(time.monotonic() - self._fitted, 1),
                "scenes": {name: quality for name, quality in found.items() if name != OVERALL},
                "overall": found.get(OVERALL),
            },
            "model": self.model.to_json(),
            "solo": self.solo.to_json(),
        }

    def _first_predictor(self) -> OnlinePredictor:
        """A stored profile whose key fits, else the cautious default model."""
        if self._profile is not None:
            loaded = load_profile(self._profile, self._key, signed=self._settings().method == "ols")
            if loaded.model is not None:
                logger.info("slidingserve: profile %s is in use", self._profile)
                return OnlinePredictor(loaded.model, calibrated=True)
            logger.info("slidingserve: %s", loaded.reason)
        return OnlinePredictor(default_model(self._limits.device))

    def _swapped(self) -> None:
        """Another model is in force: derive what follows from it."""
        self._fitted = time.monotonic()
        self._tried = self._fitted
        self.solo = SoloTable.from_model(
            self.model, max_chunk=self._limits.max_batch_tokens, max_prompt=self._limits.max_model_len
        )
        self._show_quality()

    def _show_quality(self) -> None:
        for scene, quality in self._predictor.quality().items():
            if scene != OVERALL:
                series("predictor_r2", self._engine, scene).set(quality["r2"])
