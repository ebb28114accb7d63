"""Verdicts by equation 1 on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from slidingserve.config import EngineConfig
from slidingserve.server.attainment import Counts, Sequence, Tracker
from slidingserve.server.delivery import Delivery
from slidingserve.server.promise import Asked, Promise

Counted = Callable[..., float]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tracker(config: EngineConfig, clock: Clock) -> Tracker:
    return Tracker(config, Asked(), clock)


PROMISE = Promise("dialogue", ttft=0.5, tbt=0.04)


def stream(tracker: Tracker, clock: Clock, times: list[float], sequence: Sequence | None = None) -> Sequence:
    """Tokens at `times` after arrival, each sent at once."""
    tracker.streaming = True
    sequence = sequence or tracker.start(PROMISE)
    for at in times:
        clock.now = tracker.arrival + at
        tracker.generated(sequence, 1)
        tracker.sent()
    sequence.ended_well = True
    return sequence


def verdict(counted: Counted) -> dict[str, tuple[float, float]]:
    return {
        objective: (
            counted("slo_good_total", slo_class="dialogue", objective=objective),
            counted("slo_violations_total", slo_class="dialogue", objective=objective),
        )
        for objective in ("ttft", "tbt", "request")
    }


KEPT, MISSED, NEITHER = (1, 0), (0, 1), (0, 0)


def test_tokens_on_their_deadlines_are_in_time(tracker: Tracker, clock: Clock, counted: Counted) -> None:
    stream(tracker, clock, [0.49, 0.53, 0.57])
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted) == {"ttft": KEPT, "tbt": KEPT, "request": KEPT}
    assert counted("requests_total", slo_class="dialogue") == 1


def test_a_late_first_token_moves_no_later_deadline(tracker: Tracker, clock: Clock, counted: Counted) -> None:
    stream(tracker, clock, [0.6, 0.61])
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted) == {"ttft": MISSED, "tbt": MISSED, "request": MISSED}


def test_early_tokens_build_slack_for_a_long_gap(tracker: Tracker, clock: Clock, counted: Counted) -> None:
    stream(tracker, clock, [0.1, 0.53])
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted)["tbt"] == KEPT


def test_one_late_later_token_misses_tbt_and_the_request(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    stream(tracker, clock, [0.1, 0.2, 0.7, 0.71])
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted) == {"ttft": KEPT, "tbt": MISSED, "request": MISSED}


def test_tokens_that_come_together_are_each_held_to_their_own_deadline(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    tracker.streaming = True
    sequence = tracker.start(PROMISE)
    tracker.generated(sequence, 1)
    tracker.sent()
    clock.now += 0.56  # token 2 was due at 0.54; token 3 would be at 0.58
    tracker.generated(sequence, 3)
    tracker.sent()
    sequence.ended_well = True
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted)["tbt"] == MISSED
    assert counted("tbt_seconds_count", slo_class="dialogue") == 3


def test_a_token_counts_when_its_part_of_the_stream_leaves(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    tracker.streaming = True
    sequence = tracker.start(PROMISE)
    clock.now += 0.4
    tracker.generated(sequence, 1)
    clock.now += 0.2
    tracker.sent()
    sequence.ended_well = True
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted)["ttft"] == MISSED


def test_without_streaming_a_token_counts_when_it_is_generated(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    sequence = tracker.start(PROMISE)
    clock.now += 0.4
    tracker.generated(sequence, 1)
    sequence.ended_well = True
    clock.now += 5
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted)["request"] == KEPT


def test_one_late_sequence_of_two_misses_the_request_once(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    stream(tracker, clock, [0.1, 0.2])
    stream(tracker, clock, [0.6, 0.61], tracker.start(PROMISE))
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted)["request"] == MISSED
    assert counted("requests_total", slo_class="dialogue") == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refusal_counts_as_a_request_and_a_miss(tracker: Tracker, counted: Counted, status: int) -> None:
    tracker.close(Counts(), status=status, disconnected=False)
    assert verdict(counted) == {"ttft": MISSED, "tbt": MISSED, "request": MISSED}
    assert counted("requests_total", slo_class="dialogue") == 1


@pytest.mark.parametrize("status", [0, 400, 401, 404])
def test_what_never_reached_the_engine_is_no_request(tracker: Tracker, counted: Counted, status: int) -> None:
    tracker.close(Counts(), status=status, disconnected=False)
    assert verdict(counted)["request"] == NEITHER
    assert counted("requests_total", slo_class="dialogue") == 0


def test_a_stream_that_broke_off_is_a_miss(tracker: Tracker, clock: Clock, counted: Counted) -> None:
    stream(tracker, clock, [0.1, 0.2]).ended_well = False
    tracker.close(Counts(), status=200, disconnected=False)
    assert verdict(counted) == {"ttft": KEPT, "tbt": MISSED, "request": MISSED}


def test_a_client_that_leaves_in_time_is_neither_good_nor_a_miss(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    stream(tracker, clock, [0.1, 0.2]).ended_well = False
    tracker.close(Counts(), status=200, disconnected=True)
    assert verdict(counted) == {"ttft": NEITHER, "tbt": NEITHER, "request": NEITHER}
    assert counted("client_disconnects_total", slo_class="dialogue") == 1


def test_a_client_that_leaves_after_a_missed_deadline_hides_no_miss(
    tracker: Tracker, clock: Clock, counted: Counted
) -> None:
    tracker.start(PROMISE)
    clock.now += 3.0
    tracker.close(Counts(), status=200, disconnected=True)
    assert verdict(counted) == {"ttft": MISSED, "tbt": NEITHER, "request": MISSED}


def test_the_time_from_the_core_to_the_client_is_measured(config: EngineConfig, clock: Clock) -> None:
    delivery = Delivery()
    tracker = Tracker(config, Asked(), clock, delivery.add)
    assert delivery.usual() == 0.0
    tracker.streaming = True
    sequence = tracker.start(PROMISE)
    for seconds in (0.02, 0.02, 0.02, 9.0):  # the last is a stall, not a delivery
        made = clock.now
        clock.now += seconds
        tracker.generated(sequence, 1, made)
        tracker.sent()
        tracker.sent()  # an empty part measures nothing
    assert delivery.usual() == pytest.approx(0.02)


def test_the_state_counts_the_same_events_as_the_metrics(tracker: Tracker, clock: Clock) -> None:
    counts = Counts()
    stream(tracker, clock, [0.6, 0.61])
    tracker.close(counts, status=200, disconnected=False)
    assert counts.classes["dialogue"].requests == 1
    assert counts.classes["dialogue"].good == 0
    assert counts.classes["dialogue"].violations == {"ttft": 1, "tbt": 1, "request": 1}
