"""What each request is held to: read once, never trusted, kept in rows that are used again."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace as Fake
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve.vllm_adapter.held import NONE, Roster, Table, read

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


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.none(), max_size=2)
)


@given(
    ODD | st.dictionaries(st.sampled_from(["ttft_s", "tbt_s", "safeguard", "arrival"]), ODD), st.integers(0)
)
@settings(deadline=None)
def test_whatever_a_client_writes_the_row_holds_finite_numbers(promise: Any, max_tokens: int) -> None:
    one = request("odd", sampling_params=Fake(extra_args={"slidingserve": promise}))
    one.max_tokens = max_tokens
    made = table()
    row = made.hold(one, [one])
    assert made.held.longest[row] == min(max_tokens, 1 << 53)
    assert 0 < made.held.ttft[row] < 1e9
    assert 0 < made.held.tbt[row] < 1e9
    assert np.isfinite(made.held.arrival[row])


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
    first = rows.note(session, [])
    assert rows.held.ttft[first] == 0.5
    rows.held.relegated[first] = True
    session.sampling_params = Fake(extra_args={"slidingserve": {"ttft_s": 9.0, "tbt_s": 0.04}})
    assert rows.hold(session, []) == first
    assert rows.held.ttft[first] == 9.0
    assert rows.held.relegated[first], "relegation is for the request's life"


def test_rows_of_requests_that_are_gone_are_used_again_and_start_unrelegated() -> None:
    rows = table()
    size = len(rows.held.arrival)
    living = [request(f"r{number}") for number in range(size // 2)]
    used = {rows.hold(one, []) for one in living}
    for _ in range(3 * size):
        rows.held.relegated[rows.hold(request("gone"), living)] = True
    assert len(rows.held.arrival) <= 4 * size, "it grew once or twice, not with every request"
    assert len(used) == len(living)
    fresh = rows.hold(request("fresh"), living)
    assert fresh not in used
    assert not rows.held.relegated[fresh]


def test_a_table_that_is_full_of_living_requests_grows_and_forgets_nothing() -> None:
    rows = table()
    living: list[Any] = []
    for number in range(3 * len(rows.held.arrival)):
        living.append(request(f"r{number}"))
        row = rows.hold(living[-1], living)
        rows.held.outputs[row] = number
    assert [rows.held.outputs[one.slidingserve_row] for one in living] == list(range(len(living)))
    assert {float(rows.held.ttft[one.slidingserve_row]) for one in living} == {0.5}


def test_a_roster_asks_only_who_is_new_and_again_who_has_no_row_yet() -> None:
    roster, asked = Roster(), []
    rows = table()

    def enter(one: Any) -> int:
        asked.append(one.request_id)
        return NONE if one.request_id == "grammar" else rows.hold(one, [])

    queue = [request(name) for name in ("a", "b", "grammar", "c", "d")]
    first = roster.rows(list(queue), enter).tolist()
    assert asked == ["a", "b", "grammar", "c", "d"]
    asked.clear()
    assert roster.rows(list(queue), enter).tolist() == first
    assert asked == ["grammar"]
    asked.clear()
    changed = [request("preempted"), queue[1], queue[4], request("new")]  # a, grammar and c are gone
    found = roster.rows(changed, enter).tolist()
    assert asked == ["preempted", "new"]
    assert found[1:3] == [first[1], first[4]]
    roster.forget()
    asked.clear()
    assert roster.rows(changed, enter).tolist() == found
    assert len(asked) == 4


def test_a_roster_finds_the_same_rows_whatever_has_changed() -> None:
    chance, roster, rows = random.Random(3), Roster(), table()
    queue: list[Any] = []
    for _ in range(200):
        chance.shuffle(queue) if chance.random() < 0.1 else None
        queue = [one for one in queue if chance.random() < 0.9]
        queue += [request("new") for _ in range(chance.randrange(30))]
        found = roster.rows(list(queue), lambda one: rows.hold(one, []))
        assert found.tolist() == [one.slidingserve_row for one in queue]
