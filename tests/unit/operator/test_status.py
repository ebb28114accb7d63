"""What the status says: reasons in the words of scheduler, kubelet and engine, and times that stay."""

from typing import Any

import pytest
from sloserve_operator.api.conditions import Reason
from sloserve_operator.desired.config import Written
from sloserve_operator.events import transitions
from sloserve_operator.status import Problem, Subject, compute, same
from sloserve_operator.view import Observed, PodView

from tests.unit.operator.objects import deployment, manifest, pod, state, view

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def subject(status: dict[str, Any] | None = None, generation: int = 4, replicas: int = 1) -> Subject:
    return Subject("chat", generation, replicas, "http://chat.default.svc:8000/v1", status or {})


def seen(*pods: PodView, of: dict[str, Any] | None = None, **more: Any) -> Observed:
    return Observed(of or deployment(len(pods)), pods, config=Written("new", 4), **more)


def conditions(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in status["conditions"]}


def judge(observed: Observed, kind: str, problem: Problem | None = None, **of: Any) -> tuple[str, str, str]:
    found = conditions(compute(subject(**of), observed, problem, NOW))[kind]
    return found["status"], found["reason"], found["message"]


def waiting(reason: str, message: str = "", **more: Any) -> PodView:
    container = {
        "name": "main",
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}},
    }
    return PodView(pod(ready=False, containerStatuses=[{**container, **more}]))


def test_all_is_well() -> None:
    status = compute(subject(), seen(view(engine=state("new", 4))), None, NOW)
    found = conditions(status)
    assert {kind: (c["status"], c["reason"]) for kind, c in found.items()} == {
        "SpecValid": ("True", "Valid"),
        "Progressing": ("False", "Stable"),
        "ConfigApplied": ("True", "Applied"),
        "SLOMet": ("Unknown", "TooFewRequests"),
        "Ready": ("True", "AllReplicasReady"),
    }
    assert {c["observedGeneration"] for c in found.values()} == {4}
    assert status["selector"] == "sloserve.dev/name=chat"
    assert status["pods"] == [{"name": "chat-1", "ready": True, "appliedGeneration": 4, "policy": "fcfs"}]


def test_transition_times_move_only_when_the_status_flips() -> None:
    first = compute(subject(), seen(view(engine=state("old", 3))), None, NOW)
    second = compute(subject(first), seen(view(engine=state("new", 4))), None, LATER)
    times = {kind: c["lastTransitionTime"] for kind, c in conditions(second).items()}
    still = dict.fromkeys(("SpecValid", "Progressing", "SLOMet"), NOW)
    assert times == {**still, "Ready": LATER, "ConfigApplied": LATER}


def test_an_unchanged_status_is_recognised_whatever_others_add_to_it() -> None:
    first = compute(subject(), seen(view(engine=state("new", 4))), None, NOW)
    again = compute(subject(first), seen(view(engine=state("new", 4))), None, LATER)
    assert same(again, {**first, "ofAnother": 1})
    assert not same(compute(subject(first, replicas=2), seen(view()), None, LATER), first)


@pytest.mark.parametrize(
    ("pods", "reason", "words"),
    [
        ([view(engine=state("new", 4))], "Applied", "generation 4 is in force in 1 pod"),
        ([view(engine=state("old", 3))], "WaitingForPods", "chat-1 has generation 3"),
        ([view(engine=state("new", 2))], "WaitingForPods", "chat-1 has generation 2"),
        (
            [view(engine=state("old", 3, compiling="qoserve"))],
            "WaitingForPods",
            "chat-1 compiles policy qoserve; until that is done, generation 3 stays in force",
        ),
        ([view(ready=False)], "WaitingForPods", "chat-1 has not reported yet"),
        ([view(engine=state("", 0))], "WaitingForPods", "chat-1 has not reported yet"),
        ([view(unreachable="did not answer within 2 s")], "PodUnreachable", "chat-1 did not answer"),
        ([view("a", state("new", 4)), view("b")], "PartlyApplied", "1 of 2 pods (a); b has not reported yet"),
        (
            [
                view(
                    engine=state(
                        "old", 3, rejected={"revision": "new", "generation": 4, "message": "too big"}
                    )
                )
            ],
            "ConfigRejected",
            "refuses generation 4: too big; generation 3 stays in force",
        ),
        (
            [view(engine=state("", 0, rejected={"revision": "new", "generation": 4, "message": "too big"}))],
            "ConfigRejected",
            "refuses generation 4: too big; built-in settings are in force",
        ),
        (
            [view(engine=state("new", 4, rejected={"revision": "bad", "generation": 3, "message": "old"}))],
            "Applied",
            "generation 4",
        ),
    ],
)
def test_settings_count_as_applied_only_by_the_pods_own_word(
    pods: list[PodView], reason: str, words: str
) -> None:
    status, got, message = judge(seen(*pods), "ConfigApplied")
    assert (status == "True", got) == (reason == "Applied", reason)
    assert words in message


INSUFFICIENT = {
    "type": "PodScheduled",
    "status": "False",
    "message": "0/1 nodes: 1 Insufficient nvidia.com/gpu.",
}
DIED = {"lastState": {"terminated": {"exitCode": 1, "message": "INFO x\nValueError: no such model\n"}}}


@pytest.mark.parametrize(
    ("pods", "reason", "words"),
    [
        (
            [PodView(pod(ready=False, conditions=[INSUFFICIENT]))],
            Reason.UNSCHEDULABLE,
            "The scheduler: 0/1 nodes: 1 Insufficient nvidia.com/gpu.",
        ),
        ([waiting("ImagePullBackOff", "pull of x failed")], Reason.IMAGE_PULL, "pull of x failed"),
        (
            [waiting("CreateContainerConfigError", 'secret "hf" not found')],
            Reason.CONTAINER_CONFIG,
            'secret "hf"',
        ),
        (
            [waiting("CrashLoopBackOff", "back-off", restartCount=3, **DIED)],
            Reason.CRASH_LOOP,
            "ValueError: no such model",
        ),
        ([view(ready=False)], Reason.STARTING, "chat-1"),
        ([waiting("ContainerCreating"), waiting("ErrImagePull", "gone")], Reason.IMAGE_PULL, "gone"),
        ([], Reason.PENDING, "has not made its pods"),
    ],
)
def test_not_ready_says_why_in_the_clusters_words(pods: list[PodView], reason: Reason, words: str) -> None:
    status, got, message = judge(seen(*pods, of=deployment(1, ready=0)), "Ready")
    assert (status, got) == ("False", reason)
    assert words in message


def test_a_new_pod_without_room_while_the_old_one_drains_waits_for_it() -> None:
    new = PodView(pod("new", ready=False, conditions=[INSUFFICIENT]))
    observed = seen(new, of=deployment(1, ready=0), draining=[view("old")])
    assert judge(observed, "Ready")[1:] == (
        "WaitingForDrain",
        "pod new waits for pod old to end its running requests",
    )


def test_a_quota_shows_through_the_deployment() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    observed = seen(of=deployment(1, ready=0, conditions=[failure]))
    assert judge(observed, "Ready")[1] == "QuotaExceeded"
    failure["message"] = "violates PodSecurity"
    assert judge(observed, "Ready") == ("False", "ReplicaFailure", "violates PodSecurity")


@pytest.mark.parametrize(
    "lag", [{"observedGeneration": 2}, {"updatedReplicas": 0}, {"availableReplicas": 0}, {"replicas": 2}]
)
def test_a_rollout_is_done_only_when_every_count_says_so(lag: dict[str, int]) -> None:
    observed = seen(view(engine=state("new", 4)), of=deployment(1, **lag))
    assert judge(observed, "Progressing")[:2] == ("True", "RollingOut")
    assert judge(observed, "Ready")[0] == "False"


def test_stock_scheduling_is_said_though_the_engine_serves() -> None:
    observed = seen(view(engine=state("new", 4, fallback={"reason": "speculative decoding"})))
    status, reason, message = judge(observed, "Ready")
    assert (status, reason) == ("True", "StockSchedulerInForce")
    assert "speculative decoding" in message


def test_no_replicas_is_not_ready_and_waits_with_its_settings() -> None:
    observed = seen(of=deployment(0))
    assert judge(observed, "Ready", replicas=0)[:2] == ("False", "ScaledToZero")
    assert judge(observed, "ConfigApplied", replicas=0)[:2] == ("Unknown", "NoPods")


@pytest.mark.parametrize(
    ("reason", "valid"),
    [(Reason.CHILD_REFUSED, "False"), (Reason.INVALID_SPEC, "False"), (Reason.NAME_COLLISION, "True")],
)
def test_a_problem_is_the_specs_fault_only_if_a_new_spec_helps(reason: Reason, valid: str) -> None:
    problem = Problem(reason, "the server's sentence")
    observed = Observed(None, ())
    assert judge(observed, "SpecValid", problem)[0] == valid
    assert judge(observed, "Ready", problem) == ("False", reason, "the server's sentence")
    assert judge(observed, "ConfigApplied", problem)[1] == "NotWritten"


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ([view(engine=state("new", 4))], "AllReplicasReady"),
        ([view(engine=state("old", 3))], "ConfigNotApplied"),
        ([view(engine=state("", 0))], "ConfigNotApplied"),
        ([view(unreachable="did not answer within 2 s")], "AllReplicasReady"),
    ],
)
def test_ready_speaks_of_settings_that_run_by_the_engines_last_word(pods: list[PodView], says: str) -> None:
    assert judge(seen(*pods), "Ready")[1] == says


def test_a_pod_that_ran_older_settings_and_is_out_of_reach_is_not_taken_for_ready() -> None:
    before = {"pods": [{"name": "chat-1", "ready": True, "appliedGeneration": 3}]}
    silent = seen(view(unreachable="did not answer within 2 s"))
    assert judge(silent, "Ready", status=before)[:2] == ("False", "ConfigNotApplied")
    before["pods"][0]["appliedGeneration"] = 4
    assert judge(silent, "Ready", status=before)[:2] == ("True", "AllReplicasReady")
    shown = compute(subject(before), silent, None, NOW)["pods"]
    assert shown == [{"name": "chat-1", "ready": True, "appliedGeneration": 4}], "its last word stays"


def test_counts_of_a_controller_that_stands_still_do_not_make_a_resource_ready() -> None:
    """kube-controller-manager is away: the Deployment still counts a pod that is gone, or not ready."""
    gone = Observed(deployment(1), (), config=Written("new", 4))
    assert judge(gone, "Ready")[:2] == ("False", "Pending")
    assert judge(seen(view(ready=False), of=deployment(1)), "Ready")[:2] == ("False", "Starting")
    assert judge(gone, "Progressing")[:2] == ("True", "RollingOut")


def test_a_paused_deployment_is_named_with_the_way_out() -> None:
    held = deployment(1, updatedReplicas=0)
    held["spec"]["paused"] = True
    observed = seen(view(engine=state("new", 4)), of=held)
    for kind in ("Ready", "Progressing"):
        assert judge(observed, kind)[1:] == (
            "Paused",
            "the Deployment is paused: kubectl rollout resume deployment chat",
        )


def test_events_tell_each_change_once() -> None:
    def tell(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
        posted = transitions(manifest(), old.get("conditions", []), new["conditions"], NOW, "me")
        return [(event["type"], event["reason"]) for event in posted]

    starting = compute(subject(), seen(view(ready=False), of=deployment(1, ready=0)), None, NOW)
    well = compute(subject(starting), seen(view(engine=state("new", 4))), None, NOW)
    assert tell({}, starting) == []
    assert tell(starting, well) == [("Normal", "Applied"), ("Normal", "AllReplicasReady")]
    again = compute(subject(starting), seen(view(engine=state("new", 4))), None, NOW)
    posted = [
        [e["metadata"]["name"] for e in transitions(manifest(), starting["conditions"], c, when, "me")]
        for c, when in ((well["conditions"], NOW), (again["conditions"], LATER))
    ]
    assert posted[0] == posted[1], "an operator that was killed in between posts the same events"
    assert tell(well, well) == []
    collided = compute(subject(well), Observed(None, ()), Problem(Reason.NAME_COLLISION, "theirs"), NOW)
    assert tell(well, collided) == [("Warning", "NameCollision")]


def test_an_event_has_the_times_that_kubectl_sorts_by_and_those_of_one_second_stand_in_order() -> None:
    wrong = Problem(Reason.CHILD_REFUSED, "spec.template is wrong")
    found = conditions(compute(subject(), Observed(None, ()), wrong, NOW))
    later = {**found["Ready"], "reason": "Forbidden"}
    events = list(
        transitions(manifest(), [], [found["SpecValid"], later], "2026-01-01T00:00:00.250000Z", "a")
    )
    assert [event["reason"] for event in events] == ["ChildRefused", "Forbidden"]
    for event in events:
        assert event["apiVersion"] == "v1"
        assert event["eventTime"] == "2026-01-01T00:00:00.250000Z"
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
        assert (event["count"], event["source"]["component"]) == (1, "sloserve-operator")
    names = [event["metadata"]["name"] for event in events]
    assert names == sorted(names)


def test_the_event_follows_when_the_cause_becomes_known_and_no_other_change_of_words_is_one() -> None:
    def turn(old: str, new: str) -> list[str]:
        base = {"type": "Ready", "status": "False", "reason": "ContainerConfig", "lastTransitionTime": NOW}
        before, after = {**base, "message": old}, {**base, "message": new}
        events = transitions(manifest(), [before], [after], "2026-01-01T00:00:00.250000Z", "a")
        return [event["message"] for event in events]

    vague, cause = "pod a: timed out waiting for the condition", 'pod a: secret "hf" not found'
    assert turn(vague, cause) == [cause]
    assert turn(cause, cause + ", again") == []
    assert turn(vague, vague) == []
