"""What the predictor of vLLM's real engine core learns from."""

from __future__ import annotations

import pytest

from tests.engine.loads import Counted, Make, mixed_load


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_predictor_is_fed_with_the_time_that_each_batch_really_took(
    make: Make, asynchronous: bool
) -> None:
    core = make(asynchronous=asynchronous)
    fed: list[tuple[float, float]] = []
    core.agent.learner.observe = lambda features, seconds: fed.append(
        (features.prefill_tokens + features.decode_requests, seconds)
    )
    mixed_load(core)
    real = core.core.model_executor.log
    assert [tokens for tokens, _ in fed] == [tokens for tokens, _ in real]
    late = sorted(measured - seconds for (_, measured), (_, seconds) in zip(fed, real, strict=True))
    assert abs(late[len(late) // 2]) < 0.002, "at the median; single steps wait for this machine's cores"


def test_calibration_runs_in_stock_order_and_stays_out_of_the_metrics(make: Make, counted: Counted) -> None:
    core = make()
    counted("batch_tokens_count", engine="0")
    samples = core.agent.learner._predictor.samples
    assert core.core.slidingserve_calibration("measure") == "no"
    mixed_load(core)
    assert core.core.slidingserve_calibration("end") == "yes"
    assert counted("batch_tokens_count", engine="0") == 0
    assert core.agent.learner._predictor.samples > samples + 10
    core.add("after", 10)
    core.drain()
    assert counted("batch_tokens_count", engine="0") > 0
