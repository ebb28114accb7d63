"""Above capacity: who is put behind all others, and what that is worth."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from slidingserve import policies
from slidingserve.core.columns import Decision
from slidingserve.core.relegation import behind, relegate
from slidingserve.core.settings import PolicySettings
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.core.sorter import by_priority
from slidingserve.policies.dispatch import decide

from tests.unit.engine.states import MODEL, decoding, prefilling, snapshots, state, waiting


def made(*rows: Row, **options: object) -> Decision:
    """At 1,000 tokens a second."""
    chosen = PolicySettings(**{"overload": "relegate", **options}).compiled()  # type: ignore[arg-type]
    columns = state(*rows, throughput=1000.0).columns
    return decide(policies.policy_id("slidingserve_paper"), columns, MODEL.matrix, chosen)


def test_a_request_whose_own_prefill_is_too_long_is_relegated_and_served_last() -> None:
    found = made(waiting("hopeless", 2000, slack=1.0), waiting("fine", 1000, slack=50.0))
    assert found.relegated.tolist() == [True, False]
    assert found.order.tolist() == [1, 0]


def test_the_work_before_it_counts_and_that_of_the_relegated_does_not() -> None:
    """0.6 s and 0.6 s do not both fit into 1 s, a third of 0.3 s does."""
    rows = (
        waiting("first", 600, slack=1.0),
        waiting("second", 601, slack=1.0),
        waiting("third", 300, slack=1.0),
    )
    found = made(*rows)
    assert found.order.tolist() == [2, 0, 1]
    assert found.relegated.tolist() == [False, True, False]


def test_a_prefill_that_has_begun_is_never_relegated_and_stands_before_others_with_its_rest() -> None:
    rows = (prefilling("begun", 5000, slack=0.1, done=100), waiting("w", 900, slack=5.0))
    found = made(*rows, late="paper_equation")
    assert found.relegated.tolist() == [False, True], "5 s and 0.9 s are more than 5 s"


def test_a_relegation_is_for_good_while_the_mode_is_on_and_forgotten_when_it_is_off() -> None:
    rows = (waiting("once", 10, slack=50.0, relegated=True), waiting("later", 500, slack=50.0))
    assert made(*rows).order.tolist() == [1, 0]
    off = made(*rows, overload="serve")
    assert off.order.tolist() == [0, 1]


def test_those_who_can_be_kept_come_first_and_what_is_left_goes_to_the_relegated() -> None:
    rows = (decoding("d", slack=0.05), waiting("big", 300, slack=0.15), waiting("short", 50, slack=0.16))
    served, kept = made(*rows, overload="serve"), made(*rows)
    assert served.tokens[2] == 0, "the big one is more urgent, and neither is in time"
    assert kept.relegated.tolist() == [False, True, False]
    assert kept.tokens[2] == 50
    assert 0 < kept.tokens[1] < 300


@given(snapshot=snapshots())
def test_the_relegated_stand_last_and_nobody_else_moves(snapshot: Snapshot) -> None:
    columns, chosen = snapshot.columns, PolicySettings().compiled()
    order = by_priority(columns, MODEL.matrix, chosen)
    flags = relegate(columns, order, MODEL.matrix)
    assert flags[snapshot.relegated].all()
    assert not (flags & ~snapshot.relegated & (snapshot.phase != Phase.WAITING)).any()
    ordered = behind(order, flags)
    assert sorted(ordered.tolist()) == sorted(order.tolist())
    assert (np.diff(flags[ordered].astype(int)) >= 0).all(), "the relegated stand last"
    if not flags[order].any():
        np.testing.assert_array_equal(ordered, order)
