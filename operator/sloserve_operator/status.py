"""Last step of a reconcile: the status that the resource should have. Pure; called by `reconcile`.

`problem` is what kept the children from being written, if anything did; all else is read from `Observed`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .api.conditions import Condition, Reason, Status, merge
from .api.resource import Object
from .api.status import SLOServeStatus
from .desired.names import selector
from .reasons import condition, why_not_ready
from .view import Observed, PodView, label


@dataclass(frozen=True)
class Problem:
    """Why the children could not be brought to what is desired."""

    reason: Reason
    message: str

    @property
    def spec_at_fault(self) -> bool:
        """Whether only a change of the spec helps."""
        return self.reason in (Reason.INVALID_SPEC, Reason.CHILD_REFUSED)


@dataclass(frozen=True)
class Subject:
    """The resource as far as its status speaks of it; also of one whose spec cannot be read."""

    name: str
    generation: int
    replicas: int
    endpoint: str
    status: Mapping[str, Any]


def compute(subject: Subject, observed: Observed, problem: Problem | None, now: str) -> Object:
    """The whole status as it is written; absent fields are left out. `now` is RFC 3339 in UTC."""
    counts = (observed.deployment or {}).get("status") or {}
    conditions = [
        spec_valid(problem),
        progressing(subject, observed, problem),
        config_applied(observed, problem),
        ready(subject, observed, problem),
    ]
    status: Object = {
        "observedGeneration": subject.generation,
        "replicas": counts.get("replicas", 0),
        "readyReplicas": counts.get("readyReplicas", 0),
        "selector": ",".join(f"{key}={value}" for key, value in selector(subject.name).items()),
        "endpoint": subject.endpoint,
        "conditions": merge(subject.status.get("conditions") or [], conditions, subject.generation, now),
        "pods": [_pod(pod) for pod in sorted(observed.pods, key=lambda pod: pod.name)],
    }
    if text := attainment(observed):
        status["attainment"] = text
    if observed.config:
        status["config"] = asdict(observed.config)
    elif saved := subject.status.get("config"):
        status["config"] = dict(saved)
    return status


def same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether what the API server holds already says `new`; fields that we do not know are not ours."""
    return SLOServeStatus.model_validate(new) == SLOServeStatus.model_validate(old)


def _pod(pod: PodView) -> Object:
    out: Object = {"name": pod.name, "ready": pod.ready}
    if pod.state:
        if pod.state.applied.revision:
            out["appliedGeneration"] = pod.state.applied.generation
        out |= {k: v for k, v in (("policy", pod.state.policy), ("alpha", pod.state.alpha)) if v is not None}
    return out


def attainment(observed: Observed) -> str:
    """`dialogue 99.4 % (n=1830), ...`: share of requests since the engines started, summed over the pods."""
    good: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for pod in observed.pods:
        for name, count in (pod.state.classes if pod.state else {}).items():
            good[name] += count.good
            total[name] += count.good + count.violations.get("request", 0)
    return ", ".join(
        f"{n} {100 * good[n] / total[n]:.1f} % (n={total[n]})" for n in sorted(total) if total[n]
    )


def spec_valid(problem: Problem | None) -> Condition:
    """False only where a change of the spec is the remedy."""
    if problem and problem.spec_at_fault:
        return Condition("SpecValid", "False", problem.reason, problem.message)
    return Condition("SpecValid", "True", Reason.VALID, "the spec is accepted")


def rolled_out(subject: Subject, observed: Observed) -> bool:
    """Done = the Deployment saw its own generation, and all pods are new and available."""
    deployment = observed.deployment or {}
    counts = deployment.get("status") or {}
    return (
        counts.get("observedGeneration", 0) >= (deployment.get("metadata") or {}).get("generation", 1)
        and (deployment.get("spec") or {}).get("replicas") == subject.replicas
        and counts.get("updatedReplicas", 0) == subject.replicas
        and counts.get("availableReplicas", 0) == subject.replicas
        and counts.get("replicas", 0) == subject.replicas
    )


def progressing(subject: Subject, observed: Observed, problem: Problem | None) -> Condition:
    """Whether the pods are on their way to what is desired."""
    if problem:
        return Condition("Progressing", "False", Reason.BLOCKED, problem.message)
    if rolled_out(subject, observed):
        return Condition("Progressing", "False", Reason.STABLE, "all engines run what the spec says")
    deadline = condition(observed.deployment, "Progressing")
    if deadline.get("reason") == "ProgressDeadlineExceeded":
        return Condition("Progressing", "False", Reason.DEADLINE_EXCEEDED, deadline.get("message", ""))
    counts = (observed.deployment or {}).get("status") or {}
    new, available = counts.get("updatedReplicas", 0), counts.get("availableReplicas", 0)
    text = f"{new} of {subject.replicas} engines are new, {available} available"
    return Condition("Progressing", "True", Reason.ROLLING_OUT, text)


def config_applied(observed: Observed, problem: Problem | None) -> Condition:
    """Whether every pod reports the settings last written; a pod that has not reported does not count."""
    status, reason, message = _config_verdict(observed, problem)
    return Condition("ConfigApplied", status, reason, message)


def _config_verdict(observed: Observed, problem: Problem | None) -> tuple[Status, Reason, str]:
    pods, config = observed.pods, observed.config
    if config is None or (problem and not pods):
        text = problem.message if problem else "the ConfigMap is not written yet"
        return "False", Reason.NOT_WRITTEN, text
    wanted = f"generation {config.generation}"
    if not pods:
        return "Unknown", Reason.NO_PODS, f"{wanted} waits for a pod"
    for pod in pods:
        rejected = pod.state.rejected if pod.state else None
        if pod.state and rejected and rejected.revision == config.revision:
            held = pod.state.applied
            kept = f"generation {held.generation} stays" if held.revision else "built-in settings are"
            text = f"pod {pod.name} refuses {wanted}: {rejected.message}; {kept} in force"
            return "False", Reason.CONFIG_REJECTED, text
    behind = [pod for pod in pods if not pod.state or label(pod.state.applied) != config]
    if not behind:
        plural = "pod" if len(pods) == 1 else "pods"
        return "True", Reason.APPLIED, f"{wanted} is in force in {len(pods)} {plural}"
    if lost := next((pod for pod in behind if pod.ready and pod.unreachable), None):
        return "False", Reason.POD_UNREACHABLE, f"pod {lost.name} {lost.unreachable}"
    said = ", ".join(_report_of(pod) for pod in behind[:5])
    text = f"{wanted} is in force in {len(pods) - len(behind)} of {len(pods)} pods; {said}"
    return "False", Reason.WAITING_FOR_PODS, text


def _report_of(pod: PodView) -> str:
    if pod.state is None or not pod.state.applied.revision:
        return f"{pod.name} has not reported yet"
    return f"{pod.name} has generation {pod.state.applied.generation}"


def ready(subject: Subject, observed: Observed, problem: Problem | None) -> Condition:
    """The summary: all engines serve what the spec says."""
    if problem:
        return Condition("Ready", "False", problem.reason, problem.message)
    if subject.replicas == 0:
        return Condition("Ready", "False", Reason.SCALED_TO_ZERO, "replicas is 0: no engine serves")
    if not rolled_out(subject, observed):
        return Condition("Ready", "False", *why_not_ready(observed))
    stock = next((pod for pod in observed.pods if pod.state and pod.state.fallback), None)
    if stock and stock.state and stock.state.fallback:
        text = f"pod {stock.name} runs vLLM's own scheduler: {stock.state.fallback.reason}"
        return Condition("Ready", "True", Reason.FALLBACK, text)
    plural = "engine serves" if subject.replicas == 1 else "engines serve"
    return Condition("Ready", "True", Reason.ALL_REPLICAS_READY, f"{subject.replicas} {plural}")
