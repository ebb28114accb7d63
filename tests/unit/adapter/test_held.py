"""What each request is held to: read once, never trusted, kept in rows that are used again."""

from __future__ import annotations

import time
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from slidingserve.vllm_adapter.held import Held, Table, read

from tests.unit.adapter.fakes import DEFAULT, request


def table() -> Table:
    return Table(lambda prompt: DEFAULT)


@pytest.mark.parametrize(
    "extra",
    [
        None,
        {},
        {"slidingserve": "x"},
        {"slidingserve": {}},
        {"slidingserve": {"ttft_s": "0.5", "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": float("nan"), "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": True, "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": 0.5, "tbt_s": -1}},
    ],
)
def test_missing_or_odd_metadata_gives_the_default_promise(extra: Any) -> None:
    promise = read(request("odd", sampling_params=Fake(extra_args=extra)), lambda prompt: DEFAULT)
    assert (promise.ttft, promise.tbt, promise.safeguard) == DEFAULT


def test_a_request_without_sampling_parameters_has_the_default_promise() -> None:
    assert read(request("pool", sampling_params=None), lambda prompt: DEFAULT).ttft == 1.0


def test_arrival_is_on_the_clock_of_this_process_and_never_in_the_future() -> None:
    early, late = request("early"), request("late")
    early.sampling_params.extra_args["slidingserve"]["arrival"] = time.time() - 5
    late.sampling_params.extra_args["slidingserve"]["arrival"] = time.time() + 500
    assert time.monotonic() - read(early, lambda prompt: DEFAULT).arrival == pytest.approx(5, abs=0.5)
    assert read(late, lambda prompt: DEFAULT).arrival <= time.monotonic()


def test_new_sampling_parameters_of_a_streaming_session_are_read_anew_into_the_same_row() -> None:
    rows, session = table(), request("s")
    first = rows.hold(session, [])
    assert rows.ttft[first.row] == 0.5
    rows.relegated[first.row] = True
    session.sampling_params = Fake(extra_args={"slidingserve": {"ttft_s": 9.0, "tbt_s": 0.04}})
    assert rows.hold(session, []) is first
    assert rows.ttft[first.row] == 9.0
    assert rows.relegated[first.row], "relegation is for the request's life"


def test_rows_of_requests_that_are_gone_are_used_again_and_start_unrelegated() -> None:
    rows = table()
    size = len(rows.arrival)
    living = [request(f"r{number}") for number in range(size // 2)]
    for one in living:
        rows.hold(one, [])
    gone = [rows.hold(request("gone"), living) for _ in range(3 * size)]
    for held in gone:
        rows.relegated[held.row] = True
    assert len(rows.arrival) <= 4 * size, "it grew once or twice, not with every request"
    used = {held.row for held in map(tie, living)}
    assert len(used) == len(living)
    fresh = rows.hold(request("fresh"), living)
    assert fresh.row not in used
    assert not rows.relegated[fresh.row]


def test_a_table_that_is_full_of_living_requests_grows_and_forgets_nothing() -> None:
    rows = table()
    living = []
    for number in range(3 * len(rows.arrival)):
        living.append(request(f"r{number}"))
        rows.hold(living[-1], living)
        rows.outputs[tie(living[-1]).row] = number
    assert [rows.outputs[tie(one).row] for one in living] == list(range(len(living)))
    assert {float(rows.ttft[tie(one).row]) for one in living} == {0.5}


def tie(one: Any) -> Held:
    held: Held = one.slidingserve_held
    return held
