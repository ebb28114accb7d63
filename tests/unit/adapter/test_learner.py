"""How often the predictor of a core is fitted anew."""

from __future__ import annotations

import pytest
from slidingserve.config import PredictorSettings
from slidingserve.predictor.features import batch_features
from slidingserve.predictor.profile import ProfileKey
from slidingserve.vllm_adapter.identity import Limits
from slidingserve.vllm_adapter.learner import Learner

LIMITS = Limits(max_batch_tokens=512, max_model_len=2048, max_requests=8, device="cpu")
KEY = ProfileKey("0.32.0", "m", "", "float32", 1, 1, "cpu", 512, False)


@pytest.mark.parametrize("taken", [True, False])
def test_a_fit_is_tried_once_in_a_refresh_period_taken_or_not(
    monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    learner = Learner("0", LIMITS, KEY, None)
    tried: list[bool] = []

    def refit(method: str, expert_samples: int) -> bool:
        tried.append(taken)
        return taken

    monkeypatch.setattr(learner._predictor, "refit", refit)
    learner.refresh()
    assert not tried, "the first model is new"
    learner._tried -= 31.0
    learner.refresh()
    learner.refresh()
    assert len(tried) == 1


def test_the_fit_in_force_is_the_configurations_at_that_moment() -> None:
    settings = PredictorSettings(refreshSeconds=0.1)
    learner = Learner("0", LIMITS, KEY, None, lambda: settings)
    for tokens in range(1, 500):
        learner.observe(batch_features([], [(tokens, 3 * tokens)]), 0.001 * tokens**0.5)
    for method in ("robust", "ols", "robust"):
        settings = PredictorSettings(refreshSeconds=0.1, method=method)
        learner._tried -= 1
        learner.refresh()
        assert learner.model.monotone == (method == "robust"), (
            "a curve that bends down: the plain fit has a slope below zero"
        )
        assert learner.to_json()["predictor"]["method"] == method
        assert learner.to_json()["predictor"]["overall"]["samples"] > 100


def test_the_throughput_is_of_batches_with_a_prefill_and_forgets() -> None:
    learner = Learner("0", LIMITS, KEY, None)
    assert learner.throughput == 0
    for _ in range(40):
        learner.observe(batch_features([], [(100, 0)]), 0.1)
        learner.observe(batch_features([50], []), 0.1)
    assert learner.throughput == pytest.approx(1000)
    for _ in range(100):
        learner.observe(batch_features([50], [(100, 0)]), 0.2)
    assert learner.throughput == pytest.approx(500, rel=0.02)
