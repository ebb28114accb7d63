from __future__ import annotations

import math

import numpy as np
import pytest
from slidingserve.core.chunker import chunk, current_window
from slidingserve.core.forwarder import BatchForwarder

from tests.unit.engine.states import MODEL

ONE_DECODE = BatchForwarder(MODEL, np.array([500]), np.array([300, 3000]), np.array([0, 0]))


def budget(window: float, *, limit: int = 2048, margin: float = 1.0, **options: object) -> int:
    return chunk(ONE_DECODE, window, limit, min_chunk=16, margin=margin, **options).budget  # type: ignore[arg-type]


def test_the_window_is_the_least_slack_of_the_decodes_that_are_not_late() -> None:
    assert current_window(np.array([0.3, -0.2, 0.1, 0.5])) == 0.1


@pytest.mark.parametrize("slack", [[], [-0.1], [0.0]])
def test_without_a_decode_to_protect_the_window_is_open(slack: list[float]) -> None:
    assert current_window(np.array(slack)) == math.inf


def test_the_chunk_is_the_largest_that_the_window_allows() -> None:
    found = budget(0.060)
    assert ONE_DECODE.pred(found) <= 0.060 < ONE_DECODE.pred(found + 1)


def test_the_margin_makes_the_chunk_smaller() -> None:
    found = budget(0.060, margin=1.15)
    assert ONE_DECODE.pred(found) * 1.15 <= 0.060 < ONE_DECODE.pred(found + 1) * 1.15


def test_without_a_decode_to_protect_the_batch_is_filled() -> None:
    assert budget(math.inf, limit=777) == 777


def test_a_window_that_the_margin_alone_closes_still_gives_the_smallest_chunk() -> None:
    window = ONE_DECODE.pred(1 + 16) * 1.05
    assert budget(window, margin=1.15) == 1 + 16


def test_a_chunk_that_would_lose_a_decode_is_held() -> None:
    window = ONE_DECODE.pred(1 + 16) * 0.99
    assert budget(window) == 1
    assert budget(window, tight="min_chunk") == 1 + 16


def test_what_is_left_of_a_prompt_may_be_less_than_the_smallest_chunk() -> None:
    short = BatchForwarder(MODEL, np.array([500]), np.array([5]), np.array([100]))
    assert chunk(short, 0.050, 2048, min_chunk=16, margin=1.15).budget == 6


def test_no_room_means_decodes_only() -> None:
    assert budget(math.inf, limit=1) == 1
