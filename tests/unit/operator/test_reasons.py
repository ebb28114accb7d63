"""Why a resource is not ready, from pods and Deployments as a real cluster had them (tests/data/status).

They were recorded while tests/contract/test_reasons.py ran (Kubernetes 1.34); the names are those of its
resources. What is hard to bring about at will follows by hand.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from sloserve_operator.api.conditions import Reason
from sloserve_operator.api.reason_docs import REASONS
from sloserve_operator.last_words import error_line, model_fault
from sloserve_operator.reasons import why_not_ready
from sloserve_operator.view import Observed, PodView

from tests.unit.operator.objects import deployment
from tests.unit.operator.objects import pod as described

RECORDED = Path(__file__).parents[2] / "data" / "status"
NOW = "2026-11-30T15:10:00Z"
Object = dict[str, Any]


def recorded(name: str) -> tuple[Object, list[Object]]:
    """Deployment and pods."""
    found = json.loads((RECORDED / f"{name}.json").read_text())
    return found["deployment"], found["pods"]


def observed(name: str, **more: Any) -> Observed:
    deployment, pods = recorded(name)
    return Observed(deployment, [PodView(pod) for pod in pods], **more)


def edited(recording: str, **changes: Any) -> tuple[Reason, str]:
    """The reason when the main container's status of the only pod has other fields."""
    deployment, (pod,) = copy.deepcopy(recorded(recording))
    pod["status"]["containerStatuses"][0].update(changes)
    return why_not_ready(Observed(deployment, [PodView(pod)]), NOW)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("gpus", "InsufficientGPU", "asks for 64 nvidia.com/gpu, and no node has as many free"),
        ("node", "Unschedulable", "The scheduler: 0/1 nodes are available: 1 node(s) didn't match"),
        ("quota", "QuotaExceeded", "limited: requests.example.com/gpu=1. Raise the ResourceQuota"),
        ("image", "ImagePull", 'failed to pull and unpack image "localhost/none/engine-cpu:1"'),
        ("secret", "ContainerConfig", 'secret "hf" not found. Create the Secret hf in this namespace'),
        ("secret", "ContainerConfig", "or correct spec.model.tokenSecretRef"),
        ("configmap", "ContainerConfig", "Create the ConfigMap settings in this namespace"),
        ("absent-claim", "ClaimMissing", "needs the claim weights, which is not there"),
        ("unbound-claim", "ClaimUnbound", "needs the claim waiting, which has no volume"),
        ("crash", "CrashLoop", "ended with exit code 1: ValueError: no room for the KV cache"),
        ("hub", "TokenMissing", "token missing: org/gated on http://hub is gated"),
        ("memory", "OutOfMemory", "was killed at its memory limit of 64Mi"),
        ("killed", "Killed", "(exit code 137), and not at its memory limit"),
        ("late", "ProbeFailing", "was not ready within 30 s and was restarted"),
    ],
)
def test_a_recorded_trouble_is_told_with_object_figure_and_remedy(name: str, reason: str, words: str) -> None:
    found, message = why_not_ready(observed(name), NOW)
    assert found == reason
    assert words in message
    if pods := recorded(name)[1]:
        assert pods[0]["metadata"]["name"] in message


ALL_CLAIMS = (
    "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are"
    " available: 2 Preemption is not helpful for scheduling."
)


def waiting_for_devices(words: str = ALL_CLAIMS, made: bool = True, **more: Any) -> tuple[Reason, str]:
    """The recorded pod without a node, as it is with its accelerators by claims."""
    deployment, (pod,) = copy.deepcopy(recorded("gpus"))
    spec = deployment["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    condition["message"] = words
    if made:
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": "chat-gpus-x"}]
    else:
        pod["status"].pop("conditions")
    return why_not_ready(Observed(deployment, [PodView(pod)], **more), NOW)


def test_devices_that_claims_do_not_get_are_accelerators_that_lack() -> None:
    reason, message = waiting_for_devices()
    assert reason == "InsufficientGPU"
    assert "by the claim gpus (ResourceClaimTemplate two-gpus), and no node has them free" in message
    assert message.endswith("2 cannot allocate all claims. still not schedulable"), "the scheduler's words"


def test_a_device_class_that_is_not_there_is_named() -> None:
    reason, message = waiting_for_devices(
        "0/1 nodes are available: request gpus: device class gpu.nvidia.com does not exist. no new claims to"
        " deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert reason == "Unschedulable"
    assert "asks for devices of class gpu.nvidia.com, which is not there. Install the driver" in message


def test_a_claim_that_nobody_makes_is_not_called_a_start() -> None:
    reason, message = waiting_for_devices(made=False)
    assert reason == "Unschedulable"
    assert "waits for its claim gpus, which is to be made from the ResourceClaimTemplate two-gpus" in message


def test_devices_of_an_engine_that_drains_are_waited_for() -> None:
    _, (old,) = copy.deepcopy(recorded("gpus"))
    old["metadata"]["name"] = "old"
    assert waiting_for_devices(draining=[PodView(old)])[0] == "WaitingForDrain"


RANGES = (
    'pods "chat-1" is forbidden: ValidatingAdmissionPolicy denied request: .spec.securityContext.runAsUser:'
    " Invalid value: must be in the ranges: [1000970000, 1000979999]"
)


def refused(message: str) -> str:
    failure = {"type": "ReplicaFailure", "status": "True", "message": message}
    reason, text = why_not_ready(Observed({"status": {"conditions": [failure]}}, []), NOW)
    assert reason == "ReplicaFailure"
    return text


def test_a_refused_user_is_told_with_the_field_that_leaves_it_to_the_cluster() -> None:
    assert "set spec.engine.runAs: cluster" in refused(RANGES)
    assert "engine.runAs" in refused("unable to validate against any security context constraint: []")
    other = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0'
    assert refused(other) == other


def test_a_claim_of_ours_is_told_apart_from_one_that_is_bound() -> None:
    deployment, pods = copy.deepcopy(recorded("unbound-claim"))
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    volumes.append({"name": "model-cache", "persistentVolumeClaim": {"claimName": "chat-model-cache"}})
    views = [PodView(pod) for pod in pods]
    phases = {"chat-model-cache": "Bound"}
    message = why_not_ready(Observed(deployment, views, claims=phases), NOW)[1]
    assert "the claim waiting, chat-model-cache," in message, "of a claim that is not ours we know no phase"
    phases = {"chat-model-cache": "Pending"}
    assert "the claim chat-model-cache," in why_not_ready(Observed(deployment, views, claims=phases), NOW)[1]


def test_both_of_the_kubelets_words_on_a_pull_make_one_sentence() -> None:
    detail = 'failed to pull and unpack image "x": not found'
    first = edited("image", state={"waiting": {"reason": "ErrImagePull", "message": detail}})
    backing = f'Back-off pulling image "x": ErrImagePull: {detail}'
    assert edited("image", state={"waiting": {"reason": "ImagePullBackOff", "message": backing}}) == first


def test_a_crash_reads_the_same_while_it_is_dead_backs_off_or_starts_anew() -> None:
    (container,) = recorded("crash")[1][0]["status"]["containerStatuses"]
    ended = container["lastState"]["terminated"]
    states = [
        {"state": {"terminated": ended}, "lastState": {}},
        {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}},
        {"state": {"running": {"startedAt": "2026-11-30T15:09:00Z"}}},
    ]
    told = {edited("crash", **state) for state in states}
    assert len(told) == 1


def ended(code: int, started: str, finished: str, reason: str = "Error") -> Object:
    times = {"startedAt": f"2026-11-30T{started}Z", "finishedAt": f"2026-11-30T{finished}Z"}
    return {"lastState": {"terminated": {"exitCode": code, "reason": reason, **times}}, "ready": False}


def after(end: Object, ready_since: str) -> tuple[Reason, str]:
    """Of a pod that ceased to be Ready at a time."""
    deployment, (pod,) = copy.deepcopy(recorded("killed"))
    pod["status"]["containerStatuses"][0] |= {**end, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = f"2026-11-30T{ready_since}Z"
    return why_not_ready(Observed(deployment, [PodView(pod)]), NOW)


@pytest.mark.parametrize(
    ("end", "ready_since", "reason", "words"),
    [
        # Ready, then struck down: nothing had told of its end.
        (ended(137, "15:00:00", "15:05:00"), "15:05:01", "Killed", "exit code 137"),
        # Ready until its end was begun: the probe's doing, by force or not.
        (ended(137, "15:00:00", "15:05:00"), "15:04:00", "ProbeFailing", "did not stop within 55 s"),
        (ended(0, "15:00:00", "15:05:00", "Completed"), "15:05:00", "ProbeFailing", "liveness probe"),
        (ended(143, "15:00:00", "15:05:00"), "15:04:59", "ProbeFailing", "liveness probe"),
        # Never Ready in that life.
        (ended(143, "15:00:00", "15:30:05"), "14:00:00", "ProbeFailing", "not ready within 1800 s"),
        (ended(137, "15:00:00", "15:31:00"), "14:00:00", "ProbeFailing", "did not stop within 55 s"),
        (ended(137, "15:00:00", "15:00:09"), "14:00:00", "Killed", "not at its memory limit"),
        (ended(0, "15:00:00", "15:00:09", "Completed"), "14:00:00", "CrashLoop", "ended by itself after 9 s"),
        # The kernel's word decides, whatever the times say.
        (ended(137, "15:00:00", "15:05:00", "OOMKilled"), "15:04:00", "OutOfMemory", "memory"),
    ],
)
def test_who_ended_a_container_is_told_by_its_times(
    end: Object, ready_since: str, reason: str, words: str
) -> None:
    found, message = after(end, ready_since)
    assert found == reason
    assert words in message


def test_out_of_memory_without_a_limit_is_the_nodes() -> None:
    end = ended(137, "15:00:00", "15:05:00", "OOMKilled")
    assert "its node ran out of memory. Set spec.engine.resources.limits.memory" in after(end, "15:05:00")[1]


def test_an_old_crash_is_not_held_against_an_engine_that_was_ready_since() -> None:
    deployment, (pod,) = copy.deepcopy(recorded("crash"))
    container = pod["status"]["containerStatuses"][0]
    container |= {"state": {"running": {"startedAt": "2026-11-30T14:00:00Z"}}, "started": True}
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = "2026-11-30T15:01:22Z"
    reason, message = why_not_ready(Observed(deployment, [PodView(pod)]), NOW)
    assert reason == "ProbeFailing"
    assert "has not answered its readiness probe since 2026-11-30T15:01:22Z" in message


def test_the_end_of_one_life_that_is_told_in_the_next_is_not_held_against_the_next() -> None:
    deployment, (pod,) = copy.deepcopy(recorded("killed"))
    pod["status"]["containerStatuses"][0] |= {
        **ended(143, "15:00:00", "15:05:00"),
        "state": {"running": {"startedAt": "2026-11-30T15:05:00Z"}},
        "started": False,
    }
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = "2026-11-30T15:05:02Z"
    reason, message = why_not_ready(Observed(deployment, [PodView(pod)]), NOW)
    assert reason == "ProbeFailing"
    assert "was restarted because it no longer answered its liveness probe" in message


def test_a_pod_whose_containers_are_ready_and_which_is_not_hangs_on_its_node() -> None:
    """What the node controller makes of a kubelet that no longer reports."""
    deployment, (pod,) = copy.deepcopy(recorded("stock"))
    for condition in pod["status"]["conditions"]:
        condition["status"] = "False" if condition["type"] == "Ready" else condition["status"]
    reason, message = why_not_ready(Observed(deployment, [PodView(pod)]), NOW)
    assert (reason, "its node node1 no longer reports" in message) == ("NodeLost", True)


def leaving(pod: Object, deadline: str, *conditions: Object) -> PodView:
    pod = copy.deepcopy(pod)
    pod["metadata"]["deletionTimestamp"] = deadline
    pod["status"]["conditions"] += conditions
    return PodView(pod)


def test_a_pod_that_should_have_ended_long_ago_hangs_on_its_node() -> None:
    (pod,) = recorded("stock")[1]
    for deadline, reason in (("15:00:00", "NodeLost"), ("15:09:59", "WaitingForDrain")):
        old = leaving(pod, f"2026-11-30T{deadline}Z")
        found, message = why_not_ready(observed("gpus", draining=[old]), NOW)
        assert found == reason, message


def test_what_the_scheduler_said_before_the_old_pod_ended_is_not_held_against_the_new_one() -> None:
    assert why_not_ready(observed("gpus", freed=True), NOW)[0] == "WaitingForDrain"
    assert why_not_ready(observed("node", freed=True), NOW)[0] == "Unschedulable"


def test_an_eviction_explains_what_follows_it() -> None:
    (pod,) = recorded("stock")[1]
    cause = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": "2026-11-30T15:09:30Z",
    }
    gone = leaving(pod, "2026-11-30T15:10:30Z", cause)
    reason, message = why_not_ready(observed("gpus", draining=[gone]), NOW)
    assert (reason, "DeletionByTaintManager" in message) == ("Evicted", True)


def test_a_pod_that_its_node_ended_explains_what_follows_for_ten_minutes() -> None:
    (pod,) = copy.deepcopy(recorded("stock")[1])
    text = "The node was low on resource: memory."
    pod["status"] |= {"phase": "Failed", "reason": "Evicted", "message": text}
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = "2026-11-30T15:05:00Z"
    seen = Observed(recorded("stock")[0], [], ended=[PodView(pod)])
    reason, message = why_not_ready(seen, NOW)
    assert (reason, text in message) == ("Evicted", True)
    assert why_not_ready(seen, "2026-11-30T15:20:00Z")[0] == "Pending"


def test_the_gravest_of_several_reasons_is_told() -> None:
    pods = [PodView(pod) for name in ("gpus", "memory") for pod in recorded(name)[1]]
    assert why_not_ready(Observed(recorded("memory")[0], pods), NOW)[0] == "OutOfMemory"


def test_a_container_beside_the_engine_is_named() -> None:
    assert "container proxy ended with exit code 1" in edited("crash", name="proxy")[1]


HUB = "http://127.0.0.1:18431"
# The last lines of vLLM 0.32 with huggingface_hub 2.4 and transformers, without our own line.
STOCK_WORDS = {
    "TokenMissing": "OSError: You are trying to access a gated repo.\nMake sure to have access to it at"
    f" https://huggingface.co/org/gated.\n401 Client Error.\n\nCannot access gated repo for url {HUB}/org/"
    "gated/resolve/main/config.json.\nAccess to model org/gated is restricted. Please log in.",
    "TokenRefused": "OSError: You are trying to access a gated repo.\nMake sure to have access to it at"
    f" https://huggingface.co/org/gated.\n403 Client Error.\n\nCannot access gated repo for url {HUB}/org/"
    "gated/resolve/main/config.json.\nAccess to model org/gated is restricted and you are not in the"
    " authorized list.",
    "ModelNotFound": "OSError: org/absent is not a local folder and is not a valid model identifier listed on"
    " 'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token",
}


@pytest.mark.parametrize("reason", STOCK_WORDS)
def test_the_words_of_engines_without_our_last_line_are_known_too(reason: str) -> None:
    found = model_fault({"message": STOCK_WORDS[reason]})
    assert found is not None
    assert found[0] == reason


@pytest.mark.parametrize(
    ("line", "reason", "remedy"),
    [
        (
            "hub busy: https://huggingface.co answered 429 Too Many Requests; again in 167 s",
            Reason.HUB_BUSY,
            "spec.storage.modelCache",
        ),
        (
            "hub away: https://huggingface.co cannot be reached (timed out); look at the network",
            Reason.HUB_UNREACHABLE,
            "started again by itself",
        ),
    ],
)
def test_a_hub_that_is_busy_or_away_is_a_reason_of_its_own_also_while_the_next_start_waits(
    line: str, reason: Reason, remedy: str
) -> None:
    ended = {"terminated": {"exitCode": 1, "message": f"slidingserve: {line}"}}
    again = {"running": {"startedAt": "2026-11-30T15:10:00Z"}}
    for container in ({"state": ended}, {"state": again, "lastState": ended, "started": False}):
        engine = {"name": "main", "restartCount": 1, **container}
        pods = [PodView(described(ready=False, containerStatuses=[engine]))]
        found, message = why_not_ready(Observed(deployment(1), pods), NOW)
        assert (found, line in message, remedy in message) == (reason, True, True)


def test_words_of_other_faults_are_not_taken_for_the_hubs() -> None:
    for text in ("ValueError: the token budget is 0", "INFO loading org/gated", "", "OSError: No space left"):
        assert model_fault({"message": text}) is None
    assert error_line({"message": "INFO a\nOSError: No space left\nINFO bye"}) == "OSError: No space left"
    assert error_line({"reason": "StartError"}) == "StartError"


def test_every_reason_is_documented_under_a_condition_that_it_can_have() -> None:
    assert set(REASONS) == set(Reason)


def test_a_model_that_is_not_in_the_container_asks_for_no_token() -> None:
    line = "slidingserve: model not found: there is no /models/demo in this container; correct the path"
    found = model_fault({"message": line})
    assert found is not None
    assert found[0] == "ModelNotFound"
    assert "tokenSecretRef" not in found[1]
    assert "Correct spec.model.uri, or put the model there" in found[1]


BROKEN = json.loads((Path(__file__).parents[2] / "data" / "broken_gpu.json").read_text())


def unready(**changes: Any) -> PodView:
    """A pod on a node, with what a test says of it."""
    made = described(ready=False)
    made["spec"] = {"nodeName": changes.pop("node", "node1"), **changes.pop("spec", {})}
    made["status"] |= changes
    return PodView(made)


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_a_broken_device_is_told_by_node_and_device_with_what_to_do(case: dict[str, Any]) -> None:
    view = unready(node=case["node"], containerStatuses=case["containerStatuses"])
    reason, message = why_not_ready(Observed(None, [view]), NOW)
    assert reason == "DeviceUnhealthy"
    assert [words for words in case["says"] if words not in message] == []


def test_what_a_sidecar_says_of_devices_is_not_the_engines() -> None:
    words = "cannot parse column Xid"
    ended = {"terminated": {"exitCode": 1, "message": words}}
    view = unready(containerStatuses=[{"name": "logs", "ready": False, "state": ended}])
    assert why_not_ready(Observed(None, [view]), NOW)[0] == "CrashLoop"


def test_a_readiness_gate_that_is_shut_is_named_and_no_node_is_blamed() -> None:
    ready = {"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-11-30T15:00:00Z"}}}
    gate = "example.com/target-health"
    view = unready(spec={"readinessGates": [{"conditionType": gate}]}, containerStatuses=[ready])
    reason, message = why_not_ready(Observed(None, [view]), NOW)
    assert reason == "ReadinessGate"
    assert f"its readiness gate {gate} (nobody has set it)" in message
    open_gate = {"type": gate, "status": "True"}
    view.obj["status"]["conditions"].append(open_gate)
    assert why_not_ready(Observed(None, [view]), NOW)[0] == "NodeLost"


def test_the_image_of_a_sidecar_is_not_the_engines_to_correct() -> None:
    back_off = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    view = unready(containerStatuses=[{"name": "logs", "ready": False, "state": back_off}])
    reason, message = why_not_ready(Observed(None, [view]), NOW)
    assert reason == "ImagePull"
    assert "Correct the image of container logs in spec.podTemplate" in message
    assert "spec.engine.image," not in message


def test_a_node_that_does_not_take_a_pod_up_is_named() -> None:
    view = unready(node="nowhere", containerStatuses=[])
    reason, message = why_not_ready(Observed(None, [view]), "2026-01-01T00:00:30Z")
    assert (reason, message) == ("Starting", "pod chat-1 is being set up on its node nowhere")
    reason, message = why_not_ready(Observed(None, [view]), NOW)
    assert (reason, "bound to node nowhere, which has not taken it up" in message) == ("NodeLost", True)
