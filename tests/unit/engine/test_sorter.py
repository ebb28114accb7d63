from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core.snapshot import Row, Snapshot
from slidingserve.core.sorter import sort_prefills, urgency

from tests.unit.engine.states import decoding, prefilling, snapshots, state, waiting


def order(*rows: Row, alpha: float = 0.8, **options: object) -> list[str]:
    snapshot = state(*rows)
    chosen = sort_prefills(snapshot, alpha=alpha, throughput=1000.0, **options)  # type: ignore[arg-type]
    return [snapshot.ids[row] for row in chosen]


def test_urgency_is_the_time_a_prefill_needs_over_the_time_it_has() -> None:
    snapshot = state(waiting("a", 500, slack=2.0), prefilling("b", 100, done=300, slack=0.05))
    assert urgency(snapshot, 1000.0, 0.001).tolist() == [0.25, 2.0]


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


@given(snapshots(), st.floats(0, 2))
def test_late_requests_never_stand_before_one_that_is_on_time(snapshot: Snapshot, alpha: float) -> None:
    rows = sort_prefills(snapshot, alpha=alpha, throughput=1000.0)
    late = (snapshot.slack[rows] <= 0).tolist()
    assert late == sorted(late)
    assert sorted(rows.tolist()) == [i for i, decode in enumerate(snapshot.is_decode) if not decode]
