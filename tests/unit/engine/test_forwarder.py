from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from slidingserve.core.batch import batch_of, predict
from slidingserve.core.forwarder import (
    Forwarder,
    batch_at,
    forward,
    largest_budget,
    pred,
    pred_after,
    pred_unfloored,
    time_to_budget,
)
from slidingserve.predictor.features import Features, Scene, batch_features
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import MODEL, models, queue

decode_lists = st.lists(st.integers(20, 4000), max_size=8)
queues = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 4000)), max_size=8)


def forwarder(model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]]) -> Forwarder:
    return queue(model, decodes, prefills)[1]


@given(decode_lists, queues, st.integers(0, 9000))
def test_features_of_a_budget_are_those_of_the_batch_filled_one_request_after_another(
    decodes: list[int], prefills: list[tuple[int, int]], budget: int
) -> None:
    left, batch = max(budget - len(decodes), 0), []
    for wanted, cached in prefills:
        if left:
            batch.append((min(wanted, left), cached))
            left -= batch[-1][0]
    columns, found = queue(MODEL, decodes, prefills)
    assert Features(*batch_at(found, budget)) == batch_features(decodes, batch)
    n, first = len(columns.phase), len(decodes)
    tokens = forward(found, np.arange(first), np.arange(first, n), budget, n)
    assert tokens.tolist()[:first] == [1] * first
    assert [count for count in tokens.tolist()[first:] if count] == [count for count, _ in batch]
    assert batch_of(columns, tokens) == batch_at(found, budget)


@given(models, decode_lists, queues)
def test_pred_never_falls_as_the_budget_grows(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]]
) -> None:
    found = forwarder(model, decodes, prefills)
    budgets = sorted({*range(40), *range(0, largest_budget(found) + 2, 97), largest_budget(found)})
    times = [pred(found, budget) for budget in budgets]
    assert times == sorted(times)


@given(models, decode_lists, queues, st.floats(0, 2), st.integers(0, 5000))
def test_time_to_budget_is_the_inverse_of_pred(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]], seconds: float, limit: int
) -> None:
    found = forwarder(model, decodes, prefills)
    budget = time_to_budget(found, seconds, limit)
    largest = max(min(limit, largest_budget(found)), len(decodes))
    assert len(decodes) <= budget <= largest
    if budget > len(decodes):
        assert pred(found, budget) <= seconds
    if budget < largest:
        assert pred(found, budget + 1) > seconds


@given(models, decode_lists, queues, st.floats(0, 2), st.floats(0, 2))
def test_more_time_never_gives_a_smaller_budget(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]], one: float, other: float
) -> None:
    found = forwarder(model, decodes, prefills)
    less, more = sorted((one, other))
    assert time_to_budget(found, less, 5000) <= time_to_budget(found, more, 5000)


def test_a_mixed_batch_is_never_held_to_be_quicker_than_its_decodes_alone() -> None:
    slow = Weights(0.050, (0.0,) * 7)
    fast = Weights(0.001, (0.0, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0))
    model = LatencyModel(slow, {Scene.DECODE: slow, Scene.MIXED: fast})
    found = forwarder(model, [100], [(50, 0)])
    assert pred(found, 2) == pytest.approx(0.050)
    assert time_to_budget(found, 0.049, 51) == 1


def test_one_last_prompt_token_counts_as_a_prefill() -> None:
    found = forwarder(MODEL, [], [(1, 300)])
    assert Features(*batch_at(found, 1)).scene == Scene.PREFILL
    assert batch_at(found, 1).decode_requests == 0


@given(models, decode_lists, queues, st.integers(0, 6000))
def test_compiled_and_plain_predictions_are_the_same(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]], budget: int
) -> None:
    batch = batch_at(forwarder(model, decodes, prefills), budget)
    assert predict(model.matrix, batch) == model.predict(Features(*batch))


@given(models, decode_lists, queues, st.integers(0, 3000), st.integers(0, 3000))
def test_a_second_batch_is_that_of_the_queue_as_the_first_one_left_it(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]], first: int, budget: int
) -> None:
    assume(decodes or prefills)
    left = max(first - len(decodes), 0)
    after, going = [], [context + 1 for context in decodes]
    for tokens, cached in prefills:
        done = min(tokens, left)
        left -= done
        if done == tokens:
            going.append(cached + tokens)
        else:
            after.append((tokens - done, cached + done))
    found = forwarder(model, decodes, prefills)
    assert pred_after(found, first, budget) == pytest.approx(pred(forwarder(model, going, after), budget))


def test_below_all_decodes_the_literal_reading_predicts_only_some_of_them() -> None:
    found = forwarder(MODEL, [100, 300], [(50, 0)])
    assert pred(found, 1) == pred(found, 2)
    assert pred_unfloored(found, 1) == MODEL.predict(batch_features([200], []))
    assert pred_unfloored(found, 2) == pred(found, 2)
    assert pred_unfloored(found, -5) == MODEL.predict(batch_features([], []))
