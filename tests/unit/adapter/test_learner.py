"""How often the predictor of a core is fitted anew."""

from __future__ import annotations

import pytest
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

    def refit() -> bool:
        tried.append(taken)
        return taken

    monkeypatch.setattr(learner._predictor, "refit", refit)
    learner.refresh(30.0)
    assert not tried, "the first model is new"
    learner._tried -= 31.0
    learner.refresh(30.0)
    learner.refresh(30.0)
    assert len(tried) == 1
