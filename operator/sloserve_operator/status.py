"""Last step of a reconcile: the status that the resource should have. Pure; called by `reconcile`.

`problem` is what kept the children from being written, if anything did; all else is read from `Observed`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .api.conditions import Condition, Reason, merge
from .api.resource import Object
from .api.spec_slo import SLOClass
from .api.status import SLOServeStatus
from .attainment import Figure, figures, slo_met
from .config_status import config_applied, config_behind, last_words
from .desired.names import selector
from .figures import attainment_fields, predictor_fields, predictor_of
from .reasons import paused, why_not_ready
from .view import Observed, PodView, condition


@dataclass(frozen=True)
class Problem:
    """Why the children could not be brought to what is desired."""

    reason: Reason
    message: str
    passing: bool = False
    """Failed once, and is tried again within seconds: no news yet."""
    server: Literal["", "silent", "busy"] = ""
    """It failed just now because the server did not answer, or asked to be left alone."""

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
    classes: Sequence[SLOClass] = ()


def compute(subject: Subject, observed: Observed, problem: Problem | None, now: str) -> Object:
    """The whole status as it is written; absent fields are left out. `now` is RFC 3339 in UTC."""
    counts = (observed.deployment or {}).get("status") or {}
    found = figures(subject.classes, observed.pods, observed.recent, observed.idle)
    generations = last_words(observed.pods, subject.status)
    applied = config_applied(observed, problem.message if problem else "")
    conditions = [
        spec_valid(problem),
        progressing(subject, observed, problem),
        applied,
        _slo_met(found, problem),
        ready(subject, observed, problem, applied, generations, now),
    ]
    status: Object = {
        "observedGeneration": subject.generation,
        "replicas": counts.get("replicas", 0),
        "readyReplicas": counts.get("readyReplicas", 0),
        "engines": f"{counts.get('readyReplicas', 0)}/{subject.replicas}",
        "selector": ",".join(f"{key}={value}" for key, value in selector(subject.name).items()),
        "endpoint": subject.endpoint,
        "conditions": merge(subject.status.get("conditions") or [], conditions, subject.generation, now),
        "pods": [_pod(pod, generations) for pod in sorted(observed.pods, key=lambda pod: pod.name)],
        **attainment_fields(found),
        **predictor_fields(observed),
    }
    if observed.config:
        status["config"] = asdict(observed.config)
    elif saved := subject.status.get("config"):
        status["config"] = dict(saved)
    return status


def same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether what the API server holds already says `new`; fields that we do not know are not ours."""
    return SLOServeStatus.model_validate(new) == SLOServeStatus.model_validate(old)


def _pod(pod: PodView, generations: Mapping[str, int]) -> Object:
    out: Object = {"name": pod.name, "ready": pod.ready}
    if pod.name in generations:
        out["appliedGeneration"] = generations[pod.name]
    if pod.state:
        said = (
            ("policy", pod.state.policy),
            ("alpha", pod.state.alpha),
            ("predictor", predictor_of(pod.state) or None),
        )
        out |= {name: value for name, value in said if value is not None}
    return out


def spec_valid(problem: Problem | None) -> Condition:
    """False only where a change of the spec is the remedy."""
    if problem and problem.spec_at_fault:
        return Condition("SpecValid", "False", problem.reason, problem.message)
    return Condition("SpecValid", "True", Reason.VALID, "the spec is accepted")


def _slo_met(found: Sequence[Figure], problem: Problem | None) -> Condition:
    if problem and problem.reason is Reason.INVALID_SPEC:
        return Condition("SLOMet", "Unknown", problem.reason, problem.message)
    return slo_met(found)


def rolled_out(subject: Subject, observed: Observed) -> bool:
    """Done = the Deployment saw its own generation, all pods are new and available, and are there in fact.

    The last, because a Deployment's counts are of its controller's last look, which may be long ago.
    """
    deployment = observed.deployment or {}
    counts = deployment.get("status") or {}
    return (
        not (deployment.get("metadata") or {}).get("deletionTimestamp")
        and counts.get("observedGeneration", 0) >= (deployment.get("metadata") or {}).get("generation", 1)
        and (deployment.get("spec") or {}).get("replicas") == subject.replicas
        and counts.get("updatedReplicas", 0) == subject.replicas
        and counts.get("availableReplicas", 0) == subject.replicas
        and counts.get("replicas", 0) == subject.replicas
        and sum(pod.ready for pod in observed.pods) >= subject.replicas
    )


def progressing(subject: Subject, observed: Observed, problem: Problem | None) -> Condition:
    """Whether the pods are on their way to what is desired."""
    if problem:
        return Condition("Progressing", "False", Reason.BLOCKED, problem.message)
    if rolled_out(subject, observed):
        return Condition("Progressing", "False", Reason.STABLE, "all engines are of the last rollout")
    if text := paused(observed):
        return Condition("Progressing", "False", Reason.PAUSED, text)
    deadline = condition(observed.deployment, "Progressing")
    if deadline.get("reason") == "ProgressDeadlineExceeded":
        return Condition("Progressing", "False", Reason.DEADLINE_EXCEEDED, deadline.get("message", ""))
    counts = (observed.deployment or {}).get("status") or {}
    new, available = counts.get("updatedReplicas", 0), counts.get("availableReplicas", 0)
    text = f"{new} of {subject.replicas} engines are new, {available} available"
    return Condition("Progressing", "True", Reason.ROLLING_OUT, text)


def ready(
    subject: Subject,
    observed: Observed,
    problem: Problem | None,
    applied: Condition,
    generations: Mapping[str, int],
    now: str,
) -> Condition:
    """The summary: all engines serve what the spec says, pods and live settings alike.

    A pod that is out of reach goes by its last word: an engine that is too busy to answer us is still ready.
    """
    if problem:
        return Condition("Ready", "False", problem.reason, problem.message)
    if subject.replicas == 0:
        return Condition("Ready", "False", Reason.SCALED_TO_ZERO, "replicas is 0: no engine serves")
    if not rolled_out(subject, observed):
        return Condition("Ready", "False", *why_not_ready(observed, now))
    if config_behind(observed, generations):
        text = f"all engines serve, but not all with the settings of the spec: {applied.message}"
        return Condition("Ready", "False", Reason.CONFIG_NOT_APPLIED, text)
    stock = next((pod for pod in observed.pods if pod.state and pod.state.fallback), None)
    if stock and stock.state and stock.state.fallback:
        text = f"pod {stock.name} runs vLLM's own scheduler: {stock.state.fallback.reason}"
        return Condition("Ready", "True", Reason.FALLBACK, text)
    plural = "engine serves" if subject.replicas == 1 else "engines serve"
    return Condition("Ready", "True", Reason.ALL_REPLICAS_READY, f"{subject.replicas} {plural}")
