from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core.columns import Columns
from slidingserve.core.ordering import sort_rows
from slidingserve.core.settings import PolicySettings
from slidingserve.core.snapshot import Row, Snapshot
from slidingserve.core.sorter import by_deadline, by_priority, urgency

from tests.unit.engine.states import MODEL, decoding, prefilling, snapshots, state, waiting


def sort(columns: Columns, **options: object) -> list[int]:
    chosen = PolicySettings(**options).compiled()  # type: ignore[arg-type]
    rows: list[int] = by_priority(columns, MODEL.matrix, chosen).tolist()
    return rows


def order(*rows: Row, **options: object) -> list[str]:
    snapshot = state(*rows, throughput=1000.0)
    return [snapshot.ids[row] for row in sort(snapshot.columns, **options)]


def test_urgency_is_the_time_a_prefill_needs_over_the_time_it_has() -> None:
    assert urgency(500, 2.0, 1000.0, 0.001) == 0.25
    assert urgency(100, 0.05, 1000.0, 0.001) == 2.0
    assert urgency(1, -3.0, 1000.0, 0.001) == 1.0, "slack is clipped at epsilon"


def test_the_shortest_remaining_goes_first_among_equals_and_a_started_prefill_counts_what_is_left() -> None:
    assert order(waiting("long", 900), prefilling("nearly done", 50, done=5000), waiting("short", 100)) == [
        "nearly done",
        "short",
        "long",
    ]


def test_an_urgent_request_goes_before_a_shorter_one() -> None:
    rows = (waiting("short", 100), waiting("urgent", 900, slack=1.0))
    assert order(*rows, alpha=0.8) == ["urgent", "short"]


def test_alpha_decides_what_is_urgent() -> None:
    rows = (waiting("short", 100), waiting("pressed", 900, slack=1.5))
    assert order(*rows, alpha=0.5) == ["pressed", "short"]
    assert order(*rows, alpha=0.7) == ["short", "pressed"]


def test_a_safeguarded_request_goes_before_an_urgent_one() -> None:
    rows = (waiting("urgent", 900, slack=1.0), waiting("guarded", 1000, slack=50.0, safeguard=True))
    assert order(*rows) == ["guarded", "urgent"]


def test_late_requests_stand_last_even_when_safeguarded() -> None:
    rows = (waiting("late", 10, slack=-0.1, safeguard=True), waiting("on time", 900, slack=50.0))
    assert order(*rows) == ["on time", "late"]


def test_equation_10_as_printed_puts_a_late_request_first() -> None:
    rows = (waiting("on time", 5, slack=50.0), waiting("late", 900, slack=-0.1))
    assert order(*rows, late="paper_equation") == ["late", "on time"]


def test_the_earlier_arrival_goes_first_when_all_else_is_equal() -> None:
    assert order(waiting("b", 10, arrival=-1.0), waiting("a", 10, arrival=-2.0)) == ["a", "b"]


def test_decodes_are_not_sorted_in() -> None:
    assert order(decoding("d"), waiting("w", 10)) == ["w"]


def test_earliest_deadline_first_ignores_work_and_puts_late_requests_first() -> None:
    rows = (waiting("later", 10, slack=2.0), waiting("soon", 900, slack=1.0), waiting("late", 5, slack=-1.0))
    snapshot = state(*rows)
    assert [snapshot.ids[row] for row in by_deadline(snapshot.columns)] == ["late", "soon", "later"]


@given(snapshots(), st.floats(0, 2))
def test_late_requests_never_stand_before_one_that_is_on_time(snapshot: Snapshot, alpha: float) -> None:
    rows = sort(snapshot.columns, alpha=alpha)
    late = (snapshot.slack[rows] <= 0).tolist()
    assert late == sorted(late)
    assert sorted(rows) == [i for i, decode in enumerate(snapshot.is_decode) if not decode]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), max_size=300))
def test_rows_are_sorted_by_level_then_key_then_arrival_then_row(made: list[tuple[int, int, int]]) -> None:
    table = np.array(made, np.int64).reshape(-1, 3)
    rows = np.arange(len(made))[::-1].copy()
    found = sort_rows(rows, table[:, 0].copy(), table[:, 1].astype(float), table[:, 2].astype(float))
    assert found.tolist() == sorted(range(len(made)), key=lambda row: (*made[row], row))
