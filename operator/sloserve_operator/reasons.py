"""Why a resource is not ready, read from its Deployment and pods. Pure; called by `status`.

The sentences are those of the scheduler, the kubelet and the engine itself, taken from the objects' status:
no logs, no events and no Secrets are read. Each names the object, the figure and the remedy.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from .api.conditions import Reason
from .asked import TEMPLATE, Asked, asked
from .containers import container_reason
from .devices import unhealthy
from .scheduling import Why, names, unscheduled
from .view import NEVER, Observed, PodView, condition, when

# What a cluster that gives each namespace a range of users says to a pod that asks for one of its own.
_USER = re.compile(r"runAsUser|runAsGroup|fsGroup|security context constraint", re.IGNORECASE)
_LEAVE = (
    "If the cluster gives this namespace its users, set spec.engine.runAs: cluster (for all resources: the"
    " chart's runAs). A null in podTemplate does not do it: kubectl apply drops it"
)
# An eviction explains what follows it for so long; the pod itself stays as a record for much longer.
RECENT = timedelta(minutes=10)
# Within which a claim is made from its template.
CLAIMED = timedelta(seconds=10)
# A pod that should have ended this long ago hangs on a node that does not answer.
OVERDUE = timedelta(minutes=2)


def why_not_ready(observed: Observed, now: str) -> Why:
    """The gravest reason among the pods and the Deployment."""
    wanted = asked(observed.deployment)
    found = [why for pod in observed.pods if not pod.ready for why in _pod(pod, observed, wanted, now)]
    found += [*_failure(observed), *_ended(observed, now), *_overdue(observed, now)]
    found += _unclaimed(observed, wanted, now)
    order = list(Reason)
    if found:
        return min(found, key=lambda why: order.index(why[0]))
    if observed.draining:
        old = names(observed.draining)
        return Reason.WAITING_FOR_DRAIN, f"waiting for {old} to end its running requests"
    if text := paused(observed):
        return Reason.PAUSED, text
    return Reason.PENDING, "the Deployment has not made its pods yet"


def paused(observed: Observed) -> str:
    """The sentence on a Deployment that somebody paused; "" if nobody did."""
    deployment = observed.deployment or {}
    if not (deployment.get("spec") or {}).get("paused"):
        return ""
    return f"the Deployment is paused: kubectl rollout resume deployment {deployment['metadata']['name']}"


def _failure(observed: Observed) -> Iterator[Why]:
    """What the API server says to the controller that makes the pods."""
    failure = condition(observed.deployment, "ReplicaFailure")
    if failure.get("status") != "True":
        return
    text = str(failure.get("message", ""))
    if "exceeded quota" in text:
        yield Reason.QUOTA_EXCEEDED, f"{text}. Raise the ResourceQuota, or lower what the pods ask for"
    elif _USER.search(text) and "PodSecurity" not in text:
        yield Reason.REPLICA_FAILURE, f"{text}. {_LEAVE}"
    else:
        yield Reason.REPLICA_FAILURE, text


def _pod(pod: PodView, observed: Observed, wanted: Asked, now: str) -> Iterator[Why]:
    if pod.condition("PodScheduled").get("status") == "False":
        yield from unscheduled(pod, observed, wanted)
        return
    yield from unhealthy(pod)
    containers = pod.status.get("containerStatuses") or []
    before = [c for c in pod.status.get("initContainerStatuses") or [] if not _done(c)]
    for container in before[:1] or containers:
        yield from container_reason(pod, container, wanted)
    if not containers:
        yield _not_begun(pod, now)
    elif all(container.get("ready") for container in containers):
        yield _held_back(pod)


def _not_begun(pod: PodView, now: str) -> Why:
    """Its kubelet has said nothing of it yet, or there is no such kubelet (`nodeName` of a podTemplate)."""
    node = (pod.obj.get("spec") or {}).get("nodeName")
    if not node:
        return Reason.STARTING, f"pod {pod.name} waits for a node"
    if when(now) - when(pod.obj["metadata"].get("creationTimestamp")) > OVERDUE:
        text = (
            f"pod {pod.name} is bound to node {node}, which has not taken it up. kubectl describe node {node}"
        )
        return Reason.NODE_LOST, text
    return Reason.STARTING, f"pod {pod.name} is being set up on its node {node}"


def _held_back(pod: PodView) -> Why:
    """Its containers are ready and it is not: a gate of somebody else's, or a node that is gone."""
    spec = pod.obj.get("spec") or {}
    gates = [str(gate.get("conditionType")) for gate in spec.get("readinessGates") or []]
    shut = [gate for gate in gates if pod.condition(gate).get("status") != "True"]
    if shut:
        said = pod.condition(shut[0]).get("message") or "nobody has set it"
        names = ", ".join(shut)
        text = f"pod {pod.name} is ready but for its readiness gate {names} ({said})"
        return Reason.READINESS_GATE, f"{text}: look at the controller that sets it, mostly a load balancer's"
    node = spec.get("nodeName", "?")
    text = f"pod {pod.name} is not ready although its containers are: its node {node} no longer reports"
    return Reason.NODE_LOST, f"{text}. kubectl describe node {node}"


def _unclaimed(observed: Observed, wanted: Asked, now: str) -> Iterator[Why]:
    """A pod whose claim was not made from its template: the scheduler does not even look at it."""
    for pod in observed.pods:
        made = {claim.get("name") for claim in pod.status.get("resourceClaimStatuses") or []}
        missing = {n: s for n, s in wanted.device_claims.items() if s.startswith(TEMPLATE) and n not in made}
        age = when(now) - when(pod.obj["metadata"].get("creationTimestamp"))
        if missing and age > CLAIMED and not (pod.obj.get("spec") or {}).get("nodeName"):
            name, source = next(iter(missing.items()))
            text = f"pod {pod.name} waits for its claim {name}, which is to be made from the {source}"
            remedy = "Is that in this namespace? Create it, or correct spec.engine.resourceClaims"
            yield Reason.UNSCHEDULABLE, f"{text}. {remedy}"


def _done(init: Mapping[str, Any]) -> bool:
    """Of an init container: it ended well, or it is a sidecar that runs."""
    ended = (init.get("state") or {}).get("terminated") or {}
    return ended.get("exitCode") == 0 or bool(init.get("started"))


def _ended(observed: Observed, now: str) -> Iterator[Why]:
    """The last pod that its node ended just now, or that the cluster makes leave it."""
    for pod in reversed(observed.draining):
        disruption = pod.condition("DisruptionTarget")
        if disruption.get("status") == "True":
            why = f"{disruption.get('reason')}: {disruption.get('message', '')}"
            yield Reason.EVICTED, f"pod {pod.name} has to leave its node ({why}). Another takes its place"
            return
    for pod in reversed(observed.ended):
        times = [when(c.get("lastTransitionTime")) for c in pod.status.get("conditions") or []]
        reason, text = pod.status.get("reason"), pod.status.get("message", "")
        if reason and times and when(now) - max(times) < RECENT:
            why = f"{reason}: {text}"
            yield Reason.EVICTED, f"pod {pod.name} was ended by its node ({why}). Another takes its place"
            return


def _overdue(observed: Observed, now: str) -> Iterator[Why]:
    """A pod of ours that should long have ended: nothing but its node can say that it has."""
    for pod in observed.draining:
        due = when(pod.obj["metadata"].get("deletionTimestamp"))
        if NEVER < due < when(now) - OVERDUE:
            node = (pod.obj.get("spec") or {}).get("nodeName", "?")
            late = f"pod {pod.name} should have ended at {due:%H:%M:%S}: its node {node} does not answer"
            remedy = f"If the node is gone for good: kubectl delete pod {pod.name} --force"
            yield Reason.NODE_LOST, f"{late}. {remedy}"
            return
