"""Why a resource is not ready, read from its Deployment and pods. Pure; called by `status`.

The sentences are those of the scheduler, the kubelet and the engine itself, taken from the objects' status:
no logs and no Secrets are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .api.conditions import Reason
from .view import Observed, PodView

PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
Why = tuple[Reason, str]


def condition(obj: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """One condition of an object's status, or an empty mapping."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def why_not_ready(observed: Observed) -> Why:
    """The gravest reason among the pods, else that of the Deployment."""
    found = [why for pod in observed.pods if not pod.ready for why in _pod(pod, observed)]
    failure = condition(observed.deployment, "ReplicaFailure")
    if failure.get("status") == "True":
        found.append((Reason.REPLICA_FAILURE, failure.get("message", "")))
    order = list(Reason)
    if found:
        return min(found, key=lambda why: order.index(why[0]))
    if observed.draining:
        return (
            Reason.WAITING_FOR_DRAIN,
            f"waiting for {_names(observed.draining)} to end its running requests",
        )
    return Reason.PENDING, "the Deployment has not made its pods yet"


def _pod(pod: PodView, observed: Observed) -> Iterator[Why]:
    scheduled = pod.condition("PodScheduled") or {}
    if scheduled.get("status") == "False":
        text = scheduled.get("message", "")
        if observed.draining and "Insufficient" in text:
            yield (
                Reason.WAITING_FOR_DRAIN,
                f"pod {pod.name} waits for {_names(observed.draining)} to end its running requests",
            )
        else:
            yield Reason.UNSCHEDULABLE, f"pod {pod.name}: {text}"
        return
    for container in pod.status.get("containerStatuses") or []:
        yield from _container(pod, container)
    if not pod.status.get("containerStatuses"):
        yield Reason.STARTING, f"pod {pod.name} is being set up on its node"


def _container(pod: PodView, container: Mapping[str, Any]) -> Iterator[Why]:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if reason in PULL:
        yield Reason.IMAGE_PULL, f"pod {pod.name}: {message or reason}"
    elif reason in CONFIG:
        yield Reason.CONTAINER_CONFIG, f"pod {pod.name}: {message or reason}"
    elif ended and (
        reason == "CrashLoopBackOff" or container.get("restartCount", 0) or state.get("terminated")
    ):
        yield (
            Reason.CRASH_LOOP,
            f"pod {pod.name} ended with exit code {ended.get('exitCode')}: {_error_line(ended)}",
        )
    elif state.get("running"):
        yield Reason.STARTING, f"pod {pod.name} loads the model and calibrates, or does not answer its probe"
    else:
        yield Reason.STARTING, f"pod {pod.name}: {message or reason or 'waiting'}"


def _error_line(ended: Mapping[str, Any]) -> str:
    """Last line of a container's last words that names an error, else its last line."""
    lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line.lower()]
    chosen = (errors or lines)[-1:]
    return (chosen[0] if chosen else str(ended.get("reason", "no message")))[:1000]


def _names(pods: Sequence[PodView]) -> str:
    return ", ".join(f"pod {pod.name}" for pod in pods)
