"""Who is nudged, when, and for how long."""

from sloserve_operator.desired.config import Written
from sloserve_operator.nudge import Nudges
from sloserve_operator.view import PodView

from tests.unit.operator.objects import state, view

NEW, OLD = Written("new", 4), Written("old", 3)


def values(nudges: Nudges, pods: list[PodView], now: float) -> list[str]:
    return [value for _, value in nudges.due(pods, NEW, now)]


def test_a_pod_on_older_settings_is_nudged_at_once_and_again_with_growing_pauses() -> None:
    nudges, old = Nudges(), [view(engine=state("old", 3))]
    times = [now / 4 for now in range(80) if values(nudges, old, now / 4)]
    assert times == [0, 1, 3, 7, 15]


def test_a_pod_that_stays_behind_for_days_is_nudged_every_minute() -> None:
    nudges, old = Nudges(), [view(engine=state("old", 3))]
    assert len([minute for minute in range(3000) if values(nudges, old, minute * 60.0)]) == 3000


def test_each_nudge_has_a_value_of_its_own() -> None:
    nudges, old = Nudges(), [view(engine=state("old", 3))]
    assert values(nudges, old, 0) == ["new.4"]
    assert values(nudges, old, 5) == ["new.4.1"]


def test_a_pod_that_reports_the_new_settings_is_left_alone() -> None:
    nudges = Nudges()
    values(nudges, [view(engine=state("old", 3))], 0)
    done = [view(engine=state("new", 4))]
    assert values(nudges, done, 100) == []
    assert nudges.next_look(done, 100) is None


def test_settings_that_come_back_at_a_later_generation_are_nudged_too() -> None:
    assert values(Nudges(), [view(engine=state("new", 2))], 0) == ["new.4"]


def test_a_pod_that_refuses_the_new_settings_is_left_alone() -> None:
    refusing = state("old", 3, rejected={"revision": "new", "generation": 4, "message": "no"})
    assert values(Nudges(), [view(engine=refusing)], 0) == []


def test_a_pod_that_never_reported_is_left_alone() -> None:
    silent = [view(ready=False), view("b", unreachable="refused"), view("c", engine=state(""))]
    assert values(Nudges(), silent, 0) == []


def test_a_pod_that_falls_silent_on_old_settings_is_still_nudged() -> None:
    nudges = Nudges()
    nudges.due([view(engine=state("old", 3))], OLD, 0)
    assert values(nudges, [view(unreachable="timed out")], 1) == ["new.4"]


def test_engines_are_asked_often_at_first_and_seldom_later() -> None:
    nudges, old = Nudges(), [view(engine=state("old", 3))]
    nudges.due(old, NEW, 0)
    assert [nudges.next_look(old, now) for now in (0, 9, 30, 600)] == [0.25, 0.25, 1.0, 5.0]


def test_pods_that_are_gone_are_forgotten() -> None:
    nudges, old = Nudges(), [view(engine=state("old", 3))]
    nudges.due(old, NEW, 0)
    nudges.keep(set())
    assert nudges.next_look(old, 1) is None
