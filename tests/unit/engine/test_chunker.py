from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core import chunker
from slidingserve.core.chunker import Windows, chunk, sliding_windows
from slidingserve.core.columns import HELD, REASONS, SPLIT
from slidingserve.core.forwarder import Forwarder, largest_budget, pred, pred_after, time_to_budget
from slidingserve.core.room import Room
from slidingserve.core.settings import PolicySettings
from slidingserve.predictor.features import batch_features
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import MODEL, columns, decoding, models, queue, waiting

ONE_DECODE = queue(MODEL, [500], [(300, 0), (3000, 0)])[1]


def settings(**options: Any) -> PolicySettings:
    return PolicySettings(**{"margin": 1.0, "window": "single", **options})


def budget(
    time: float, *, following: float = 0.05, limit: int = 2048, of: Forwarder = ONE_DECODE, **options: Any
) -> int:
    return chunk(of, Windows(time, following), limit, settings(**options).compiled()).budget


def windows(*slack: float, tbt: float = 0.05, queued: bool = False, **options: Any) -> Windows:
    rows = [decoding(f"d{i}", slack=s) for i, s in enumerate(slack)]
    made = columns(*rows, *([waiting("w", 10, tbt_limit=0.07)] if queued else []))
    room = Room(np.arange(len(rows)), np.arange(len(rows), len(made.phase)), 100)
    return sliding_windows(made, room, settings(**options).compiled())


def test_the_window_is_the_least_slack_of_the_decodes_that_are_not_late() -> None:
    assert windows(0.3, -0.2, 0.1, 0.5).current == pytest.approx(0.1)


def test_the_next_window_is_what_this_one_leaves_of_the_slack_and_one_more_token() -> None:
    made = columns(decoding("tight", slack=0.1, tbt_limit=0.05), decoding("easy", slack=0.12))
    quick = made._replace(slack=np.array([0.1, 0.12]), tbt_limit=np.array([0.05, 0.02]))
    found = sliding_windows(quick, Room(np.arange(2), np.arange(0), 0), settings().compiled())
    assert tuple(found) == pytest.approx((0.1, 0.04)), "equation 15: 0.12 - 0.1 + 0.02"


@pytest.mark.parametrize("slack", [[], [-0.1], [-1.0, -0.01]])
def test_without_a_decode_to_protect_the_window_is_open(slack: list[float]) -> None:
    assert windows(*slack) == (math.inf, math.inf)


def test_with_all_decodes_protected_a_late_one_closes_the_window() -> None:
    assert windows(-0.1, 0.3, safe_decodes="all").current == pytest.approx(-0.1)


def test_an_idle_window_may_be_the_least_tbt_of_the_queue() -> None:
    assert windows(queued=True) == (math.inf, math.inf)
    assert windows(queued=True, idle_window="least_tbt") == (0.07, 0.07)
    assert windows(0.1, queued=True, idle_window="least_tbt").current == pytest.approx(0.1)


def test_the_single_window_is_filled() -> None:
    found = budget(0.060)
    assert pred(ONE_DECODE, found) <= 0.060 < pred(ONE_DECODE, found + 1)


def test_the_margin_makes_the_chunk_smaller() -> None:
    found = budget(0.060, margin=1.15)
    assert pred(ONE_DECODE, found) * 1.15 <= 0.060 < pred(ONE_DECODE, found + 1) * 1.15


@pytest.mark.parametrize("window", ["single", "sliding"])
def test_without_a_decode_to_protect_the_batch_is_filled(window: str) -> None:
    assert budget(math.inf, limit=777, window=window) == 777


@pytest.mark.parametrize("window", ["single", "sliding"])
def test_a_window_that_the_margin_alone_closes_still_gives_the_smallest_chunk(window: str) -> None:
    tight = pred(ONE_DECODE, 1 + 16) * 1.05
    assert budget(tight, margin=1.15, window=window) == 1 + 16


@pytest.mark.parametrize("window", ["single", "sliding"])
def test_a_chunk_that_would_lose_a_decode_is_held(window: str) -> None:
    tight = pred(ONE_DECODE, 1 + 16) * 0.99
    assert budget(tight, window=window) == 1
    assert budget(tight, tight="min_chunk", window=window) == 1 + 16
    held = chunk(ONE_DECODE, Windows(tight, 0.05), 2048, settings(window=window).compiled())
    assert held.reason == HELD
    assert "would lose a decode" in REASONS[HELD]


def test_what_is_left_of_a_prompt_may_be_less_than_the_smallest_chunk() -> None:
    short = queue(MODEL, [500], [(5, 100)])[1]
    assert budget(0.050, margin=1.15, of=short) == 6


def test_without_a_decode_something_is_always_prefilled() -> None:
    alone = queue(MODEL, [], [(300, 0)])[1]
    for window in ("single", "sliding"):
        assert budget(0.001, of=alone, window=window) == 16
    assert budget(0.001, following=0.001, of=alone, window="sliding", search="paper") == 16


def test_no_room_means_decodes_only() -> None:
    assert budget(math.inf, limit=1) == 1


CURVED = LatencyModel(Weights(0.010, (0.0, 5e-7, 0.0, 1e-4, 0.0, 0.0, 0.0)))
"""A batch's time grows with the square of its chunk, so that two equal chunks cost the least."""


def test_where_large_chunks_cost_more_the_two_steps_share_the_work() -> None:
    long = queue(CURVED, [500], [(5000, 0)])[1]
    wide, narrow = 0.100, 0.030
    current = time_to_budget(long, wide, 2048)
    total = current + time_to_budget(long, narrow, 2048)
    found = budget(wide, following=narrow, of=long, window="sliding")
    assert found < current
    assert found == pytest.approx(total / 2, abs=chunker.SPAN)
    both = pred(long, found) + pred_after(long, found, total - found)
    greedy = pred(long, current) + pred_after(long, current, total - current)
    assert both < greedy


def test_where_both_windows_hold_the_whole_queue_it_is_taken_at_once() -> None:
    short = queue(CURVED, [500], [(50, 0), (60, 0)])[1]
    assert budget(0.5, following=0.5, of=short, window="sliding") == largest_budget(short)


def test_of_equal_sums_the_larger_chunk_is_taken() -> None:
    flat = queue(LatencyModel(Weights(0.010, (0.0,) * 7)), [500], [(5000, 0)])[1]
    assert budget(0.1, following=0.005, of=flat, limit=700, window="sliding") == 700


def test_the_margin_shortens_the_next_window_too() -> None:
    long = queue(CURVED, [500], [(5000, 0)])[1]
    found = budget(0.2, following=0.1, of=long, margin=2.0, window="sliding")
    assert found == pytest.approx(
        (time_to_budget(long, 0.1, 2048) + time_to_budget(long, 0.05, 2048)) / 2, abs=15
    )


def test_a_split_leaves_the_smallest_chunk_or_none() -> None:
    long = queue(CURVED, [500], [(5000, 0)])[1]
    small = budget(0.045, following=0.015, of=long, window="sliding")
    assert 150 < small < 200 < time_to_budget(long, 0.045, 2048)
    assert budget(0.045, following=0.015, of=long, window="sliding", min_chunk=200) == 1 + 200


def test_the_second_step_is_predicted_on_the_queue_as_the_first_leaves_it_or_literally_as_it_is() -> None:
    def both(size: int, total: int, **options: Any) -> float:
        return chunker._both(two, size, total, settings(**options).compiled())

    two = queue(MODEL, [500, 500], [(100, 0), (300, 2000)])[1]
    first = pred(two, 102)
    assert both(102, 302) == first + pred_after(two, 102, 200) > first + pred(two, 200)
    assert both(102, 302, second_window="paper") == first + pred(two, 200)
    assert both(102, 103) == first + pred_after(two, 102, 1), "all decodes run, the new one too"
    one_decode = MODEL.predict(batch_features([500], []))
    assert both(102, 103, floor="paper") == pytest.approx(first + one_decode)
    assert both(102, 103, floor="paper") < both(102, 103)


def test_the_literal_search_prefers_the_decodes_alone() -> None:
    """A pure decode batch is the cheapest and the queue it is compared on never moves: nothing is prefilled,
    which is why the search is clamped and the queue advanced by default."""
    scenes = LatencyModel.from_json(
        {"global": [0.02, *[0] * 5, 1e-4, 0], "experts": {"decode": [0.01, *[0] * 7]}}
    )
    found = queue(scenes, [500], [(5000, 0)])[1]
    literal: dict[str, Any] = {"window": "sliding", "search": "paper", "second_window": "paper"}
    assert budget(0.060, of=found, **literal) == 1
    assert budget(0.300, following=0.300, of=found, limit=2048, **literal) == 1
    assert budget(0.300, following=0.300, of=found, limit=2048, window="sliding") > 1


@given(models, st.integers(1, 8), st.lists(st.tuples(st.integers(1, 900), st.integers(0, 4000)), max_size=8),
       st.floats(0.001, 1), st.floats(0.001, 1), st.integers(1, 3000))  # fmt: skip
def test_a_clamped_split_keeps_both_steps_within_their_windows(
    model: LatencyModel,
    decodes: int,
    prefills: list[tuple[int, int]],
    current: float,
    following: float,
    limit: int,
) -> None:
    found = queue(model, [500] * decodes, prefills)[1]
    chosen = settings(window="sliding").compiled()
    made = chunk(found, Windows(current, following), limit, chosen)
    assert decodes <= made.budget <= max(min(limit, largest_budget(found)), decodes)
    if made.budget > decodes:
        assert pred(found, made.budget) <= current
    if made.reason == SPLIT:
        first, second = (time_to_budget(found, window, limit) for window in (current, following))
        most = min(limit, largest_budget(found))
        assert first + second - made.budget <= most, "the rest fits a batch"


@pytest.mark.parametrize("limit", [1, 31, 32, 1000, 16_384, 1 << 20])
def test_the_search_is_bounded(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round keeps at most two thirds of the range: log(B / 30) / log(1.5) rounds, two sums each."""
    asked = 0

    def counted(forwarder: Forwarder, size: int, total: int, chosen: object) -> float:
        nonlocal asked
        asked += 1
        return abs(size - limit / 3)

    monkeypatch.setattr(chunker, "_both", counted)
    plain = getattr(chunker._split, "py_func", chunker._split)
    long = queue(MODEL, [500], [(1 << 21, 0)])[1]
    literal = settings(window="sliding", search="paper").compiled()
    plain(long, Windows(0.1, 0.1), 100, limit, literal)
    rounds = max(math.ceil(math.log(max(limit / chunker.SPAN, 1)) / math.log(1.5)), 0)
    assert asked <= 2 * (rounds + 1) + 3
