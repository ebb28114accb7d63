"""Batch times on made-up moments, with and without a batch in flight."""

from __future__ import annotations

import pytest
from slidingserve.predictor.features import batch_features
from slidingserve.vllm_adapter.clock import Batch, BatchClock

FEATURES = batch_features([1], [])


def seconds_of(clock: BatchClock, one: Batch, now: float) -> float:
    """Measured seconds of `one`, whose result came at `now`."""
    finished = clock.done(one.output, now)
    assert finished is not None
    assert finished[0] is one
    return finished[1]


def batch(scheduled: float, predicted: float = 0.1) -> Batch:
    return Batch(object(), FEATURES, predicted, scheduled)


def test_without_a_queue_the_time_is_from_schedule_to_result() -> None:
    clock = BatchClock()
    for start in (1.0, 2.0):
        one = batch(start)
        clock.scheduled(one)
        assert seconds_of(clock, one, start + 0.25) == pytest.approx(0.25)


def test_a_batch_that_waited_for_the_one_before_counts_from_that_ones_end() -> None:
    clock = BatchClock()
    one, two = batch(1.0), batch(1.01)
    clock.scheduled(one)
    clock.scheduled(two)
    assert seconds_of(clock, one, 1.3) == pytest.approx(0.3)
    assert seconds_of(clock, two, 1.5) == pytest.approx(0.2)


def test_a_result_that_was_never_entered_is_ignored() -> None:
    clock = BatchClock()
    one = batch(1.0)
    clock.scheduled(one)
    assert clock.done(object(), 1.2) is None
    assert seconds_of(clock, one, 1.3) == pytest.approx(0.3)


def test_a_batch_that_never_came_back_is_forgotten() -> None:
    clock = BatchClock()
    lost, one = batch(1.0), batch(2.0)
    clock.scheduled(lost)
    clock.scheduled(one)
    assert seconds_of(clock, one, 2.1) == pytest.approx(0.1)
    assert clock.idle_at(3.0) == 3.0


def test_the_end_of_the_work_in_flight_is_predicted_from_where_it_began() -> None:
    clock = BatchClock()
    assert clock.idle_at(5.0) == 5.0
    clock.scheduled(batch(1.0, predicted=0.2))
    clock.scheduled(batch(1.05, predicted=0.3))
    assert clock.idle_at(1.1) == pytest.approx(1.5)
    assert clock.idle_at(9.0) == 9.0, "a batch that overruns ends now at the earliest"
