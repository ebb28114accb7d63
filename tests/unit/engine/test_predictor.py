from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.predictor.features import Features, Scene, batch_features
from slidingserve.predictor.model import FLOOR_SECONDS, LatencyModel, Weights
from slidingserve.predictor.nnls import fit_weights, solve_nonnegative

from tests.unit.engine.states import models

prefills = st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 8000)), max_size=5)
contexts = st.lists(st.integers(1, 8000), max_size=20)


def test_the_features_are_those_of_table_1() -> None:
    features = batch_features([100, 300], [(64, 1000), (16, 0)])
    assert features == Features(
        prefill_attention=64 * (1000 + 64) + 16 * 16,
        chunk_attention=64 * 64 + 16 * 16,
        cached_tokens=100 + 300 + 1000,
        decode_requests=2,
        decode_context=400,
        prefill_tokens=80,
        largest_chunk=64,
    )


@pytest.mark.parametrize(
    ("decodes", "chunks", "scene"),
    [
        ([9], [], Scene.DECODE),
        ([], [(1, 9)], Scene.PREFILL),
        ([9], [(1, 9)], Scene.MIXED),
        ([], [], Scene.DECODE),
    ],
)
def test_the_scene_goes_by_phase(decodes: list[int], chunks: list[tuple[int, int]], scene: Scene) -> None:
    assert batch_features(decodes, chunks).scene == scene


def test_an_expert_predicts_its_scene_and_the_global_weights_the_others() -> None:
    model = LatencyModel(Weights(1.0, (0.0,) * 7), {Scene.DECODE: Weights(2.0, (0.0,) * 7)})
    assert model.predict(batch_features([5], [])) == 2.0
    assert model.predict(batch_features([5], [(5, 0)])) == 1.0


def test_a_prediction_is_never_zero() -> None:
    assert LatencyModel(Weights(0.0, (0.0,) * 7)).predict(batch_features([], [])) == FLOOR_SECONDS


@given(models, contexts, prefills, st.integers(1, 500), st.integers(0, 4))
def test_more_prefill_tokens_never_make_a_prediction_fall(
    model: LatencyModel, decodes: list[int], chunks: list[tuple[int, int]], extra: int, which: int
) -> None:
    if not chunks:
        return
    larger = list(chunks)
    count, cached = larger[which % len(larger)]
    larger[which % len(larger)] = (count + extra, cached)
    assert model.predict(batch_features(decodes, larger)) >= model.predict(batch_features(decodes, chunks))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="eight finite numbers"):
        Weights(0.1, (0.0, 0.0, bad, 0.0, 0.0, 0.0, 0.0))


def test_a_compiled_policy_reads_the_weights_in_force_of_each_scene() -> None:
    everywhere = Weights(1.0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0))
    model = LatencyModel(everywhere, {Scene.PREFILL: Weights(9.0, (-1.0,) * 7)})
    assert model.matrix.tolist() == [[1, 1, 2, 3, 4, 5, 6, 7], [9] + [-1] * 7, [1, 1, 2, 3, 4, 5, 6, 7]]
    assert model.matrix is model.matrix, "made once"


@given(models)
def test_a_model_survives_its_json_form(model: LatencyModel) -> None:
    assert LatencyModel.from_json(json.loads(json.dumps(model.to_json()))) == model


@given(st.integers(1, 8), st.integers(0, 10_000))
def test_the_solver_meets_the_conditions_of_a_nonnegative_optimum(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(size + 3, size))
    gram = design.T @ design + 1e-3 * np.eye(size)
    right = design.T @ rng.normal(size=size + 3)
    found = solve_nonnegative(gram, right)
    gradient = gram @ found - right
    assert (found >= 0).all()
    assert (gradient >= -1e-7).all(), "no weight at zero would like to grow"
    np.testing.assert_allclose(gradient[found > 0], 0, atol=1e-7)


def test_a_slope_that_the_data_want_negative_becomes_zero() -> None:
    rng = np.random.default_rng(1)
    features = np.zeros((200, 7))
    features[:, 5] = rng.uniform(1, 2000, 200)
    features[:, 3] = rng.uniform(1, 64, 200)
    seconds = 0.1 + 2e-4 * features[:, 5] - 1e-3 * features[:, 3]
    fitted = fit_weights(features, seconds, np.ones(200), Weights(0.02, (0.0,) * 7))
    assert fitted.slopes[3] == 0
    assert fitted.slopes[5] == pytest.approx(2e-4, rel=0.1)
