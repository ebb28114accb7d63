from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.predictor.calibration import calibration_plan, default_model
from slidingserve.predictor.features import batch_features
from slidingserve.predictor.solo import SoloTable

from tests.unit.engine.states import MODEL

TABLE = SoloTable.from_model(MODEL, max_prompt=8192)


def test_a_solo_time_is_the_prefill_in_chunks_plus_the_serving_overhead() -> None:
    chunks = [(2048, 0), (2048, 2048)]
    expected = 0.06 + sum(MODEL.predict(batch_features([], [chunk])) for chunk in chunks)
    assert TABLE.seconds(4096) == pytest.approx(expected)
    assert TABLE.seconds(1) == pytest.approx(0.06 + MODEL.predict(batch_features([], [(1, 0)])))


def test_an_engine_with_smaller_batches_takes_more_of_them() -> None:
    small = SoloTable.from_model(MODEL, max_prompt=2048, max_chunk=256, overhead_seconds=0.0)
    expected = sum(MODEL.predict(batch_features([], [(256, done)])) for done in range(0, 2048, 256))
    assert small.seconds(2048) == pytest.approx(expected)


@given(st.integers(0, 20_000), st.integers(0, 20_000))
def test_a_longer_prompt_never_takes_less(one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert 0 < TABLE.seconds(less) <= TABLE.seconds(more)


@given(st.integers(1, 8192))
def test_between_its_lengths_the_table_is_close_to_the_model(prompt: int) -> None:
    full, rest = divmod(prompt, 2048)
    chunks = [(2048, i * 2048) for i in range(full)] + ([(rest, full * 2048)] if rest else [])
    exact = 0.06 + sum(MODEL.predict(batch_features([], [chunk])) for chunk in chunks)
    assert TABLE.seconds(prompt) == pytest.approx(exact, rel=0.05)


def test_a_table_survives_its_json_form_and_a_damaged_one_is_refused() -> None:
    document = json.loads(json.dumps(TABLE.to_json()))
    assert SoloTable.from_json(document) == TABLE
    with pytest.raises(ValueError, match="lengths must rise"):
        SoloTable.from_json({"prompt_tokens": [5, 5], "seconds": [1, 1]})


@pytest.mark.parametrize("device", ["cpu", "cuda", "xpu"])
def test_the_default_model_is_cautious_and_sane(device: str) -> None:
    model = default_model(device)
    full = model.predict(batch_features([], [(2048, 0)]))
    assert 0.3 < full < 5
    assert model.predict(batch_features([500] * 8, [])) < full


@given(
    st.integers(16, 8192),
    st.integers(64, 32_768),
    st.integers(1, 256),
    st.floats(0, 60),
    st.sampled_from(["cpu", "cuda"]),
)
def test_a_calibration_fits_the_engine_and_its_time(
    batch: int, model_len: int, requests: int, seconds: float, device: str
) -> None:
    plan = calibration_plan(
        max_batched_tokens=batch,
        max_model_len=model_len,
        max_requests=requests,
        seconds=seconds,
        device=device,
    )
    assert sum(run.seconds for run in plan) <= seconds + 1e-9
    for run in plan:
        assert run.decodes or run.prefills
        assert len(run.decodes) + len(run.prefills) <= requests
        assert all(n >= 1 and n + run.output_tokens <= model_len for n in run.decodes)
        assert all(n >= 1 and n + 1 <= model_len for n in run.prefills)
    assert [run.warmup for run in plan] == [i == 0 for i in range(len(plan))]


def test_twenty_seconds_show_every_scene_at_several_sizes() -> None:
    plan = calibration_plan(
        max_batched_tokens=2048, max_model_len=4096, max_requests=64, seconds=20, device="cpu"
    )
    counted = [run for run in plan if not run.warmup]
    prefill = {sum(run.prefills) for run in counted if not run.decodes}
    decode = {len(run.decodes) for run in counted if run.decodes}
    mixed = {(len(run.decodes), sum(run.prefills)) for run in counted if run.decodes and run.prefills}
    assert len(prefill) >= 5
    assert len(decode) >= 2
    assert len(mixed) >= 2
