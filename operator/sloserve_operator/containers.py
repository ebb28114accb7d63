"""Why a container does not run or is not ready, from the kubelet's words. Pure; called by `reasons`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api.conditions import Reason
from .asked import Asked
from .desired.pod import CONTAINER
from .last_words import error_line, model_fault
from .scheduling import Why
from .view import PodView, when

PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# 143 = SIGTERM. An engine that is asked to stop ends with 0.
STOPPED, KILLED = (0, 143), 137
# A container whose readiness was lost this long before it ended was being stopped, not struck down.
STOPPING_SECONDS = 5
# The kubelet begins to probe when it likes, and counts probes, not seconds.
SLACK_SECONDS = 5
# The kubelet tells the same fault in two ways by turns; one sentence of both, or each turn is a write.
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": \w+: ')
_ABSENT = re.compile(r'(secret|configmap) "([^"]+)" not found')


def container_reason(pod: PodView, container: Mapping[str, Any], asked: Asked) -> Iterator[Why]:
    """The reason of one entry of containerStatuses or initContainerStatuses; none if all is well with it."""
    who = f"pod {pod.name}"
    if container.get("name") != CONTAINER:
        who += f", container {container.get('name')}"
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message") or waiting.get("reason", "")
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if reason in PULL:
        yield Reason.IMAGE_PULL, _pull(who, message, container)
    elif reason in CONFIG:
        yield Reason.CONTAINER_CONFIG, _config(who, message, asked)
    elif container.get("ready"):
        return
    elif _was_ready(pod, container, state):
        yield Reason.PROBE_FAILING, _deaf(who, pod)
    elif ended:
        yield _end(who, pod, ended, asked, container)
    elif state.get("running") and container.get("name") != CONTAINER:
        yield Reason.STARTING, f"{who} runs and is not ready yet; its probe is in spec.podTemplate"
    elif state.get("running"):
        yield Reason.STARTING, f"{who} loads the model and calibrates, and is to be ready{_within(asked)}"
    else:
        yield Reason.STARTING, f"{who}: {message or 'waiting'}"


def _was_ready(pod: PodView, container: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether it was Ready in this life: `started` is False until the startup probe has passed.

    The time alone would not do, since the kubelet may tell of the last life's end when this one has begun.
    """
    running = state.get("running") or {}
    begun = bool(running) and container.get("started") is not False
    return begun and pod.ready_since > when(running.get("startedAt"))


def _pull(who: str, message: str, container: Mapping[str, Any]) -> str:
    own = container.get("name") == CONTAINER
    field = (
        "spec.engine.image" if own else f"the image of container {container.get('name')} in spec.podTemplate"
    )
    remedy = f"Correct {field}, or give the pull secret of its registry in spec.engine.imagePullSecrets"
    return f"{who}: {_BACK_OFF.sub('', message)}. {remedy}"


def _config(who: str, message: str, asked: Asked) -> str:
    found = _ABSENT.search(message)
    if not found:
        return f"{who}: {message}"
    kind, name = found.groups()
    of_token = kind == "secret" and name == asked.token_secret
    where = "spec.model.tokenSecretRef" if of_token else "what names it"
    kind = "Secret" if kind == "secret" else "ConfigMap"
    return f"{who}: {message}. Create the {kind} {name} in this namespace, or correct {where}"


def _end(who: str, pod: PodView, ended: Mapping[str, Any], asked: Asked, container: Mapping[str, Any]) -> Why:
    """Of a container that ended, now or the last time."""
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        return Reason.OUT_OF_MEMORY, _memory(who, container, asked)
    if fault := model_fault(ended):
        return fault[0], f"{who}: {fault[1]}"
    if code in STOPPED or code == KILLED:
        return _stopped(who, pod, ended, asked)
    return Reason.CRASH_LOOP, f"{who} ended with exit code {code}: {error_line(ended)}"


def _memory(who: str, container: Mapping[str, Any], asked: Asked) -> str:
    own = (container.get("resources") or {}).get("limits") or {}
    limit = own.get("memory") or (asked.memory_limit if container.get("name") == CONTAINER else "")
    field = "spec.engine.resources.limits.memory"
    if container.get("name") != CONTAINER:
        field = "its memory limit in spec.podTemplate"
    if not limit:
        return f"{who} was killed because its node ran out of memory. Set {field}"
    return (
        f"{who} was killed at its memory limit of {limit}. Raise {field}; what is in /dev/shm and other"
        " memory volumes counts"
    )


def _stopped(who: str, pod: PodView, ended: Mapping[str, Any], asked: Asked) -> Why:
    """Ended by a signal, while nobody deleted the pod: its probes, as far as its times tell."""
    started, finished = when(ended.get("startedAt")), when(ended.get("finishedAt"))
    ran = (finished - started).total_seconds()
    code = ended.get("exitCode")
    by_force = f" and did not stop within {asked.grace_seconds} s" if code == KILLED else ""
    if pod.ready_since > started:  # it was Ready in that life, and ceased to be before it ended
        notice = (finished - pod.ready_since).total_seconds()
        if code != KILLED or notice >= STOPPING_SECONDS:
            return Reason.PROBE_FAILING, (
                f"{who} was restarted because it no longer answered its liveness probe (/health){by_force}."
                f" Its log before that: kubectl logs {pod.name} --previous"
            )
    elif asked.startup_seconds and ran >= asked.startup_seconds - SLACK_SECONDS:
        return Reason.PROBE_FAILING, (
            f"{who} was not ready within {asked.startup_seconds} s and was restarted{by_force}. Raise"
            f" spec.engine.startupTimeoutSeconds, or look into its log: kubectl logs {pod.name} --previous"
        )
    if code == KILLED:
        return Reason.KILLED, (
            f"{who} was killed (exit code 137), and not at its memory limit: by its node for lack of memory,"
            f" or by somebody in it. kubectl describe pod {pod.name} and the node's kernel log say more"
        )
    return (
        Reason.CRASH_LOOP,
        f"{who} ended by itself after {ran:.0f} s with exit code {code}: {error_line(ended)}",
    )


def _deaf(who: str, pod: PodView) -> str:
    return (
        f"{who} has not answered its readiness probe since {pod.ready_since:%Y-%m-%dT%H:%M:%SZ}, and gets no"
        " requests. GET /slidingserve/v1/ready on its port 8000 says why"
    )


def _within(asked: Asked) -> str:
    return f" within {asked.startup_seconds} s" if asked.startup_seconds else ""
