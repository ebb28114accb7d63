"""Whether the live settings last written are in force, by the pods' own word. Pure; called by `status`."""

from collections.abc import Mapping, Sequence
from typing import Any

from .api.conditions import Condition, Reason, Status
from .desired.config import Written
from .view import Observed, PodView, label

MOST_NAMES = 5


def config_applied(observed: Observed, blocked: str) -> Condition:
    """The condition; a pod that has not reported does not count. `blocked`: what keeps us from writing."""
    status, reason, message = _verdict(observed, blocked)
    return Condition("ConfigApplied", status, reason, message)


def _verdict(observed: Observed, blocked: str) -> tuple[Status, Reason, str]:
    pods, config = observed.pods, observed.config
    if config is None or (blocked and not pods):
        return "False", Reason.NOT_WRITTEN, blocked or "the ConfigMap is not written yet"
    wanted = f"generation {config.generation}"
    if not pods:
        return "Unknown", Reason.NO_PODS, f"{wanted} waits for a pod"
    for pod in pods:
        if text := _refusal(pod, config):
            return "False", Reason.CONFIG_REJECTED, text
    behind = [pod for pod in pods if not pod.state or label(pod.state.applied) != config]
    if not behind:
        plural = "pod" if len(pods) == 1 else "pods"
        return "True", Reason.APPLIED, f"{wanted} is in force in {len(pods)} {plural}"
    if lost := next((pod for pod in behind if pod.ready and pod.unreachable), None):
        return "False", Reason.POD_UNREACHABLE, f"pod {lost.name} {lost.unreachable}"
    have = [pod for pod in pods if pod not in behind]
    said = ", ".join(_report_of(pod) for pod in behind[:MOST_NAMES])
    said += f" and {len(behind) - MOST_NAMES} more" if len(behind) > MOST_NAMES else ""
    text = f"{wanted} is in force in {len(have)} of {len(pods)} pods"
    if have:
        return "False", Reason.PARTLY_APPLIED, f"{text} ({_listed(have)}); {said}"
    return "False", Reason.WAITING_FOR_PODS, f"{text}; {said}"


def _refusal(pod: PodView, config: Written) -> str:
    if pod.state is None or pod.state.rejected is None or pod.state.rejected.revision != config.revision:
        return ""
    held = pod.state.applied
    kept = f"generation {held.generation} stays" if held.revision else "built-in settings are"
    refused = f"pod {pod.name} refuses generation {config.generation}"
    return f"{refused}: {pod.state.rejected.message}; {kept} in force"


def _report_of(pod: PodView) -> str:
    if pod.state is None or not pod.state.applied.revision:
        return f"{pod.name} has not reported yet"
    if pod.state.compiling:
        kept = f"generation {pod.state.applied.generation} stays in force"
        return f"{pod.name} compiles policy {pod.state.compiling}; until that is done, {kept}"
    return f"{pod.name} has generation {pod.state.applied.generation}"


def _listed(pods: Sequence[PodView]) -> str:
    shown = ", ".join(pod.name for pod in pods[:MOST_NAMES])
    return f"{shown} and {len(pods) - MOST_NAMES} more" if len(pods) > MOST_NAMES else shown


def config_behind(observed: Observed, generations: Mapping[str, int]) -> bool:
    """Whether a pod said that it runs other settings than those written (`generations`: its last word)."""
    config = observed.config
    if config is None:
        return False
    return any(
        label(pod.state.applied) != config
        if pod.state
        else generations.get(pod.name, config.generation) != config.generation
        for pod in observed.pods
    )


def last_words(pods: Sequence[PodView], status: Mapping[str, Any]) -> Mapping[str, int]:
    """Generation in force by pod, of pods that said so now or, if they are out of reach now, before."""
    before = {pod["name"]: pod.get("appliedGeneration") for pod in status.get("pods") or []}
    out = {}
    for pod in pods:
        if pod.state is not None:
            generation = pod.state.applied.generation if pod.state.applied.revision else None
        else:
            generation = before.get(pod.name)
        if generation is not None:
            out[pod.name] = generation
    return out
