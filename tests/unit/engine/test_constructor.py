from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core import constructor
from slidingserve.core.chunker import Windows
from slidingserve.core.constructor import Built, better, by_slack, construct, value
from slidingserve.core.forwarder import time_to_budget
from slidingserve.core.knapsack import MOST_CELLS
from slidingserve.core.settings import PolicySettings
from slidingserve.core.violation import at_risk, full_seconds
from slidingserve.predictor.features import Features, batch_features
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import columns, queue, waiting

PLAIN = LatencyModel(Weights(0.010, (0.0, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0)))
"""10 ms a step and 0.1 ms a prefill token."""
OPEN = Windows(float("inf"), float("inf"))


def built(
    sizes: list[int],
    slack: list[float],
    *,
    windows: Windows = OPEN,
    limit: int = 2048,
    decodes: int = 0,
    full: float = 9.0,
    model: LatencyModel = PLAIN,
    **options: Any,
) -> list[int]:
    """The chosen requests by their place; 1 token a cell and no margin unless the options say so."""
    made, found = queue(model, [500] * decodes, [(size, 100) for size in sizes], slack)
    rows = np.arange(decodes, decodes + len(sizes))
    chosen = PolicySettings(**{"margin": 1.0, "quantum": 1, **options}).compiled()
    answer = construct(made, found, rows, windows, full, limit, chosen)
    picked = np.flatnonzero(answer.chosen).tolist() if answer.requests else []
    assert len(picked) == answer.requests
    assert answer.tokens == sum(sizes[row - decodes] for row in picked)
    return [row - decodes for row in picked]


def test_a_risk_is_a_prefill_with_less_slack_than_the_full_batch_takes() -> None:
    made, found = queue(PLAIN, [], [(500, 100), (500, 100)], [0.2, 0.105])
    rows = np.arange(2)
    full = full_seconds(found, 2048, PolicySettings(margin=1.0).compiled())
    assert full == pytest.approx(0.110)
    assert at_risk(made, rows, full)
    assert not at_risk(made, rows[:1], full)
    assert not at_risk(made, rows[:0], full)
    assert full_seconds(found, 2048, PolicySettings(margin=2.0).compiled()) == pytest.approx(0.220)


def test_candidates_stand_by_slack_then_by_remaining_work() -> None:
    made = columns(waiting("a", 50, slack=2.0), waiting("b", 40, slack=1.0), waiting("c", 10, slack=2.0))
    assert by_slack(made, np.arange(3)).tolist() == [1, 2, 0]


def test_the_value_is_equation_18() -> None:
    assert value(100, 0.5, 400.0, 2.0) == pytest.approx(1 / (100 / 400 + 0.5 / 2.0))
    assert value(50, 0.5, 400.0, 2.0) > value(100, 0.5, 400.0, 2.0) > value(100, 0.9, 400.0, 2.0)


def test_the_comparer_puts_count_before_value_before_tokens() -> None:
    def result(requests: int, worth: float, tokens: int) -> Built:
        return Built(np.zeros(1, np.bool_), requests, worth, tokens, 0.1)

    assert better(result(2, 1.0, 10), result(1, 9.0, 99))
    assert better(result(2, 2.0, 10), result(2, 1.0, 99))
    assert better(result(2, 1.0, 11), result(2, 1.0, 10))
    assert not better(result(2, 1.0, 10), result(2, 1.0, 10))


def test_an_anchor_is_in_its_batch_and_its_slack_bounds_it() -> None:
    """The anchor's 60 ms hold 500 tokens: itself and the 100, not the 900."""
    assert built([300, 900, 100], [0.060, 0.2, 0.3]) == [0, 2]


def test_only_requests_with_no_less_slack_than_the_anchor_join_it() -> None:
    """The first cannot end in its 15 ms, so it is no anchor, and it joins none with more time."""
    assert built([100, 300], [0.015, 0.060]) == [1]


def test_more_requests_that_end_beat_an_urgent_one_alone() -> None:
    assert built([450, 200, 200, 200], [0.060, 0.090, 0.090, 0.090]) == [1, 2, 3]


def test_no_anchor_that_can_end_in_time_means_no_set() -> None:
    assert built([900], [0.060]) == []
    assert built([10], [-0.1]) == []


def test_requests_that_are_not_at_risk_are_no_anchors() -> None:
    assert built([300], [0.2], full=0.1) == []


def test_the_decodes_window_bounds_an_anchor_too_unless_the_paper_is_taken_literally() -> None:
    """40 ms to the next token hold 300 tokens, the anchor's own 61 ms 510."""
    tight = Windows(0.040, 0.050)
    assert built([250, 200], [0.061, 0.061], windows=tight, decodes=1) == [1]
    assert built([250, 200], [0.061, 0.061], windows=tight, decodes=1, anchor="paper") == [0, 1]


def test_decodes_take_their_tokens_from_the_capacity() -> None:
    assert built([300, 200], [0.070, 0.070], limit=500, decodes=0) == [0, 1]
    assert len(built([300, 200], [0.070, 0.070], limit=500, decodes=1)) == 1


def test_a_set_that_takes_longer_than_its_capacity_promised_is_dropped() -> None:
    """The head of the queue has no context; the chosen set has, and reading it takes time."""
    model = LatencyModel(Weights(0.010, (0.0, 0.0, 1e-4, 0.0, 0.0, 1e-4, 0.0)))
    made, found = queue(model, [], [(900, 0), (300, 300)], [0.5, 0.065])
    literal = PolicySettings(margin=1.0, quantum=1, capacity="paper").compiled()
    rows = np.arange(2)
    assert time_to_budget(found, 0.065, 2048) == 550
    assert construct(made, found, rows, OPEN, 9.0, 2048, literal).tokens == 300
    checked = PolicySettings(margin=1.0, quantum=1).compiled()
    assert construct(made, found, rows, OPEN, 0.1, 2048, checked).requests == 0


def test_an_anchor_is_joined_by_requests_with_the_same_slack_that_stand_before_it() -> None:
    made, _ = queue(PLAIN, [], [(100, 0), (200, 0), (50, 0)], [0.06, 0.06, 0.05])
    chosen = PolicySettings(margin=1.0, quantum=1).compiled()
    ordered = by_slack(made, np.arange(3))
    assert ordered.tolist() == [2, 0, 1]
    work, time = constructor._sums_from(made, ordered)
    answer = constructor._around(made, ordered, 2, 400, 0.06, work, time, chosen)
    assert np.flatnonzero(answer.chosen).tolist() == [0, 1], "not the one with less slack"
    assert answer.value == pytest.approx(value(100, 0.06, 300, 0.12) + value(200, 0.06, 300, 0.12))


sizes_and_slack = st.lists(st.tuples(st.integers(1, 400), st.floats(-0.05, 0.3)), min_size=1, max_size=9)


@given(sizes_and_slack, st.integers(0, 3), st.floats(0.02, 0.3))
def test_no_other_set_with_an_anchor_ends_more_prefills_in_time(
    made: list[tuple[int, float]], decodes: int, window: float
) -> None:
    """Values prefer small work, so the most valuable set need not be the most numerous; it is never larger
    than the best by count, and it always fits the slack of all its members and the window."""
    sizes, slack = [size for size, _ in made], [s for _, s in made]
    found = built(sizes, slack, windows=Windows(window, window), decodes=decodes)
    allowed = min([window, *[slack[i] for i in found]])
    taken = PLAIN.predict(batch_features([500] * decodes, [(sizes[i], 100) for i in found]))
    best = 0
    for count in range(1, len(made) + 1):
        for some in combinations(range(len(made)), count):
            seconds = PLAIN.predict(batch_features([500] * decodes, [(sizes[i], 100) for i in some]))
            if seconds <= min([window, *[slack[i] for i in some]]):
                best = max(best, count)
    assert len(found) <= best
    assert bool(found) == bool(best)
    if found:
        assert taken <= allowed + 1e-12


def test_the_work_of_a_round_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests are at risk: at most 16 knapsacks of 64 items and 2,048 cells."""
    sizes: list[tuple[int, int]] = []

    def counted(weights: Any, values: Any, capacity: int, quantum: int) -> Any:
        sizes.append((len(weights), capacity // constructor_cells(capacity, quantum)))
        return np.zeros(len(weights), np.bool_)

    from slidingserve.core.knapsack import cell_size as constructor_cells

    for name in ("construct", "_around", "_items"):
        part = getattr(constructor, name)
        monkeypatch.setattr(constructor, name, getattr(part, "py_func", part))
    monkeypatch.setattr(constructor, "knapsack", counted)
    many = 400
    made, found = queue(
        PLAIN, [], [(50 + i % 7, 0) for i in range(many)], [0.5 + i / 1e4 for i in range(many)]
    )
    chosen = PolicySettings(margin=1.0, quantum=1).compiled()
    constructor.construct(made, found, np.arange(many), OPEN, 9.0, 16_384, chosen)
    assert len(sizes) == constructor.MOST_ANCHORS
    assert max(items for items, _ in sizes) == constructor.MOST_ITEMS
    assert max(cells for _, cells in sizes) <= MOST_CELLS


def test_the_features_of_the_set_are_those_of_its_batch() -> None:
    made, found = queue(PLAIN, [500], [(300, 100), (40, 7)], [0.1, 0.1])
    chosen = np.array([False, True, True])
    answer = Built(chosen, 2, 1.0, 340, 0.1)
    model = LatencyModel(Weights(0.001, (1e-9, 2e-9, 3e-7, 4e-5, 5e-8, 6e-5, 7e-6)))
    wanted = model.predict(batch_features([500], [(300, 100), (40, 7)]))
    seconds = constructor._set_seconds(made, found._replace(weights=model.matrix, decode_only=0.0), answer)
    assert seconds == pytest.approx(wanted)
    assert isinstance(batch_features([500], []), Features)
