"""How the promise is kept: over ten minutes or since the start, by class, and never better than it is."""

from typing import Any

import pytest
from sloserve_operator.api.spec_slo import SLOClass
from sloserve_operator.attainment import (
    FEWEST_REQUESTS,
    WINDOW_SECONDS,
    Figure,
    Window,
    figures,
    overall,
    slo_met,
)
from sloserve_operator.figures import attainment_fields, predictor_fields, predictor_of, settled
from sloserve_operator.view import Observed, PodView

from tests.unit.operator.objects import deployment, state, view


def slo(name: str = "chat", objective: float = 99, weight: float = 1) -> SLOClass:
    return SLOClass.model_validate(
        {
            "name": name,
            "ttft": {"slowdown": 5},
            "tbtMilliseconds": 40,
            "objectivePercent": objective,
            "weight": weight,
        }
    )


def counted(pod: str = "chat-1", **classes: tuple[int, int]) -> PodView:
    """A pod that had (good, missed) requests by class since it started."""
    said = {name: {"good": good, "violations": {"request": bad}} for name, (good, bad) in classes.items()}
    return view(pod, state("new", 4, classes=said))


def figure(good: int, count: int, objective: float = 99, name: str = "chat", **more: Any) -> Figure:
    return Figure(slo(name, objective, **more), good, count, recent=True)


def test_after_a_start_of_the_operator_counts_are_since_the_engines_started() -> None:
    window = Window()
    assert window.recent([counted(chat=(90, 10))], 0) == {}
    assert window.recent([counted(chat=(95, 10))], 300) == {}
    (found,) = figures([slo()], [counted(chat=(95, 10))], {})
    assert (found.good, found.count, found.recent) == (95, 105, False)
    assert "the time since the engines started" in slo_met([found]).message


def test_ten_minutes_later_a_class_is_judged_by_its_last_ten_minutes() -> None:
    window = Window()
    window.recent([counted(chat=(0, 1000))], 0)
    window.recent([counted(chat=(100, 1000))], WINDOW_SECONDS / 2)
    recent = window.recent([counted(chat=(150, 1000))], WINDOW_SECONDS)
    assert recent == {"chat": (150, 150)}
    later = window.recent([counted(chat=(150, 1000))], WINDOW_SECONDS * 1.5)
    assert later == {"chat": (50, 50)}
    (found,) = figures([slo()], [counted(chat=(150, 1000))], later)
    assert slo_met([found]).message == (
        "the worst of 1: class chat kept its promise for 100.0 % of 50 requests in the last 10 minutes; its"
        " objective is 99 %"
    )


def test_a_class_with_few_requests_in_the_window_is_judged_by_all_it_had() -> None:
    (found,) = figures([slo()], [counted(chat=(990, 10))], {"chat": (0, FEWEST_REQUESTS - 1)})
    assert (found.good, found.count, found.recent) == (990, 1000, False)


def test_a_container_that_starts_anew_counts_from_zero_and_a_new_pod_too() -> None:
    window = Window()
    window.recent([counted(chat=(500, 0))], 0)
    window.recent([counted(chat=(600, 0))], WINDOW_SECONDS)
    assert window.recent([counted(chat=(30, 0))], WINDOW_SECONDS + 15) == {"chat": (30, 30)}
    fresh = [counted(chat=(40, 0)), counted("chat-2", chat=(0, 0))]
    assert window.recent(fresh, WINDOW_SECONDS + 30) == {"chat": (40, 40)}
    fresh = [counted(chat=(40, 0)), counted("chat-2", chat=(7, 0))]
    assert window.recent(fresh, WINDOW_SECONDS + 45) == {"chat": (47, 47)}


def test_memory_of_a_window_does_not_grow() -> None:
    window = Window()
    for second in range(0, 20_000, 1):
        window.recent([counted(chat=(second, 0))], second)
    (samples,) = window._samples.values()
    assert len(samples) <= WINDOW_SECONDS / 10 + 2
    window.recent([], 20_001)
    assert window._samples == {}


@pytest.mark.parametrize(
    ("found", "status", "reason", "words"),
    [
        ([figure(5, 5)], "Unknown", "TooFewRequests", "the most is 5"),
        ([], "Unknown", "TooFewRequests", "the most is 0"),
        ([figure(99, 100)], "True", "ObjectivesMet", "99.0 % of 100 requests"),
        ([figure(989, 1000)], "False", "ObjectiveMissed", "98.9 % of 1000 requests"),
        ([figure(98_999, 100_000)], "False", "ObjectiveMissed", "98.9 % of 100000"),
        ([figure(99_949, 100_000, 99.95)], "False", "ObjectiveMissed", "99.94 % of 100000"),
        ([figure(95, 100, name="a"), figure(50, 100, name="b")], "False", "ObjectiveMissed", "class b kept"),
        ([figure(95, 100, name="a"), figure(50, 100, name="b")], "False", "ObjectiveMissed", "1 more class"),
        ([figure(100, 100), figure(1, 3, name="rare")], "True", "ObjectivesMet", "class chat"),
        ([figure(98, 100, 99, "strict"), figure(60, 100, 50, "lax")], "False", "ObjectiveMissed", "strict"),
    ],
)
def test_the_worst_class_is_named_with_its_figure_and_its_objective(
    found: list[Figure], status: str, reason: str, words: str
) -> None:
    condition = slo_met(found)
    assert (condition.status, condition.reason) == (status, reason)
    assert words in condition.message


def test_the_overall_figure_weighs_classes_and_leaves_idle_ones_out() -> None:
    found = [figure(50, 100, weight=3), figure(100, 100, name="b"), figure(0, 0, name="idle", weight=100)]
    assert overall(found) == "62.5 %"
    assert overall([]) == ""


def test_the_status_has_each_class_and_says_of_how_many_requests() -> None:
    pods = [counted("x", a=(8, 2)), counted("y", a=(9, 1), gone=(1, 1))]
    out = attainment_fields(figures([slo("a"), slo("idle")], pods, {}))
    assert out["attainment"] == "a 85.0 % (n=20)"
    assert out["sloClasses"] == [
        {"name": "a", "met": "False", "attainment": "85.0 %", "objective": "99 %", "requests": 20},
        {"name": "idle", "met": "Unknown", "objective": "99 %", "requests": 0},
    ]


def predictor(samples: int, off: float, under: float = 0.5, calibrated: bool = True) -> dict[str, Any]:
    """As the engine's state has it (slidingserve/vllm_adapter/learner.py)."""
    quality = {"samples": samples, "r2": 0.9, "mae_s": 0.01, "mae_share": off, "under_share": under}
    return {"calibrated": calibrated, "samples": samples, "overall": quality, "scenes": {}}


def test_the_predictors_accuracy_is_shown_by_pod_and_over_all_by_their_batches() -> None:
    one = view("x", state("new", 4, predictor=predictor(300, 0.04)))
    two = view("y", state("new", 4, predictor=predictor(100, 0.08, 0.1)))
    observed = Observed(deployment(2), [one, two])
    assert one.state is not None
    assert predictor_of(one.state) == "4.0 % off, 50.0 % under (n=300)"
    assert predictor_fields(observed) == {"predictor": "5.0 % off, 40.0 % under"}
    assert predictor_of(state("new", 4, predictor=predictor(0, 0, calibrated=False))) == "not calibrated"
    assert predictor_of(state("new", 4)) == ""


def test_a_status_without_its_figures_keeps_what_must_be_told_at_once() -> None:
    def told(good: int) -> dict[str, Any]:
        found = figures([slo()], [counted(chat=(good, 1000 - good))], {})
        condition = {"type": "SLOMet", **vars(slo_met(found))}
        return settled({"conditions": [condition], **attainment_fields(found)})

    assert told(995) == told(996)
    assert told(995) != told(989), "it crosses its objective"


def test_an_idle_class_is_not_judged_and_its_figure_stands_still() -> None:
    window = Window()
    busy, quiet = counted(chat=(60, 40), rare=(0, 0)), counted(chat=(60, 40), rare=(0, 0))
    assert window.idle([counted(chat=(0, 0))], 0.0) == frozenset(), "a start of the operator tells nothing"
    assert window.idle([busy], 100.0) == frozenset()
    assert window.idle([quiet], 279.0) == frozenset()
    idle = window.idle([quiet], 281.0)
    assert idle == {"chat", "rare"}
    figures_then = figures([slo("chat")], [quiet], {"chat": (1, 30)}, idle)
    condition = slo_met(figures_then)
    assert (condition.status, condition.reason) == ("Unknown", "Idle")
    assert "no class has had a request for 3 minutes" in condition.message
    shown = attainment_fields(figures_then)
    assert shown["sloClasses"][0]["met"] == "Unknown"
    assert shown["attainment"] == "chat 60.0 % (n=100)", "as a window that empties would not leave it"
    assert window.idle([counted(chat=(61, 40))], 300.0) == {"rare"}, "one request, and it is judged again"


def test_a_class_is_not_busy_because_a_pod_with_requests_appears() -> None:
    window = Window()
    window.idle([counted(chat=(5, 0))], 0.0)
    assert window.idle([counted(chat=(5, 0)), counted("chat-2", chat=(9, 0))], 200.0) == {"chat"}


def test_nothing_is_called_idle_while_a_pod_that_may_be_busy_is_out_of_reach() -> None:
    window = Window()
    window.idle([counted(chat=(5, 0))], 0.0)
    assert (
        window.idle([counted(chat=(5, 0)), view("chat-2", unreachable="did not answer")], 200.0)
        == frozenset()
    )
