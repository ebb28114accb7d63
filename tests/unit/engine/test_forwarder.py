from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core.forwarder import BatchForwarder
from slidingserve.predictor.features import Scene, batch_features
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import MODEL, models

decode_lists = st.lists(st.integers(1, 4000), max_size=8)
queues = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 4000)), max_size=8)


def forwarder(model: LatencyModel, decodes: list[int], queue: list[tuple[int, int]]) -> BatchForwarder:
    left = np.array([r for r, _ in queue], np.int64)
    cached = np.array([u for _, u in queue], np.int64)
    return BatchForwarder(model, np.array(decodes, np.int64), left, cached)


@given(decode_lists, queues, st.integers(0, 9000))
def test_features_of_a_budget_are_those_of_the_batch_filled_one_request_after_another(
    decodes: list[int], queue: list[tuple[int, int]], budget: int
) -> None:
    left, batch = max(budget - len(decodes), 0), []
    for tokens, cached in queue:
        if left:
            batch.append((min(tokens, left), cached))
            left -= batch[-1][0]
    found = forwarder(MODEL, decodes, queue)
    assert found.features(budget) == batch_features(decodes, batch)
    assert found.forward(budget)[1] == [count for count, _ in batch]


@given(models, decode_lists, queues)
def test_pred_never_falls_as_the_budget_grows(
    model: LatencyModel, decodes: list[int], queue: list[tuple[int, int]]
) -> None:
    found = forwarder(model, decodes, queue)
    budgets = sorted({*range(40), *range(0, found.largest_budget + 2, 97), found.largest_budget})
    times = [found.pred(budget) for budget in budgets]
    assert times == sorted(times)


@given(models, decode_lists, queues, st.floats(0, 2), st.integers(0, 5000))
def test_time_to_budget_is_the_inverse_of_pred(
    model: LatencyModel, decodes: list[int], queue: list[tuple[int, int]], seconds: float, limit: int
) -> None:
    found = forwarder(model, decodes, queue)
    budget = found.time_to_budget(seconds, limit)
    largest = max(min(limit, found.largest_budget), len(decodes))
    assert len(decodes) <= budget <= largest
    if budget > len(decodes):
        assert found.pred(budget) <= seconds
    if budget < largest:
        assert found.pred(budget + 1) > seconds


@given(models, decode_lists, queues, st.floats(0, 2), st.floats(0, 2))
def test_more_time_never_gives_a_smaller_budget(
    model: LatencyModel, decodes: list[int], queue: list[tuple[int, int]], one: float, other: float
) -> None:
    found = forwarder(model, decodes, queue)
    less, more = sorted((one, other))
    assert found.time_to_budget(less, 5000) <= found.time_to_budget(more, 5000)


def test_a_mixed_batch_is_never_held_to_be_quicker_than_its_decodes_alone() -> None:
    slow = Weights(0.050, (0.0,) * 7)
    fast = Weights(0.001, (0.0, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0))
    model = LatencyModel(slow, {Scene.DECODE: slow, Scene.MIXED: fast})
    found = forwarder(model, [100], [(50, 0)])
    assert found.pred(2) == pytest.approx(0.050)
    assert found.time_to_budget(0.049, 51) == 1


def test_one_last_prompt_token_counts_as_a_prefill() -> None:
    found = forwarder(MODEL, [], [(1, 300)])
    assert found.features(1).scene == Scene.PREFILL
    assert found.features(1).decode_requests == 0
