"""What one reconcile saw, as plain data: made by `observe`, read by `status` and `nudge`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .api.engine import EngineState, Label
from .desired.config import Written

NEVER = datetime.min.replace(tzinfo=UTC)


def when(text: str | None) -> datetime:
    """A time of Kubernetes; NEVER, which is before all others, if there is none."""
    return datetime.fromisoformat(text) if text else NEVER


def condition(obj: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """One condition of an object's status, or an empty mapping."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def label(said: Label) -> Written:
    """Settings as an engine names them, to compare with those written."""
    return Written(said.revision, said.generation)


def ours(pod: Mapping[str, Any], deployment: str) -> bool:
    """Whether a ReplicaSet of the Deployment of that name controls a pod; our labels anybody can set.

    By the ReplicaSet's name, which the Deployment's controller makes of its own and the template's hash:
    ReplicaSets themselves we may not read.
    """
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or []
    controller: Mapping[str, Any] = next((owner for owner in owners if owner.get("controller")), {})
    template = (meta.get("labels") or {}).get("pod-template-hash")
    named = bool(template) and controller.get("name") == f"{deployment}-{template}"
    return controller.get("kind") == "ReplicaSet" and named


@dataclass(frozen=True)
class PodView:
    """One pod of ours, and the state that its engine reported (None: `unreachable` says why)."""

    obj: Mapping[str, Any]
    state: EngineState | None = None
    unreachable: str = ""

    @property
    def name(self) -> str:
        """Name of the pod."""
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Uid of the pod."""
        return str(self.obj["metadata"]["uid"])

    @property
    def status(self) -> Mapping[str, Any]:
        """`status` of the pod."""
        return self.obj.get("status") or {}

    @property
    def terminating(self) -> bool:
        """Whether it was asked to stop."""
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    @property
    def finished(self) -> bool:
        """Whether it will never run again (evicted, failed)."""
        return self.status.get("phase") in ("Failed", "Succeeded")

    @property
    def ready(self) -> bool:
        """Whether it is Ready, which is what Services go by."""
        return self.condition("Ready").get("status") == "True"

    @property
    def ready_since(self) -> datetime:
        """When it became Ready, or ceased to be."""
        return when(self.condition("Ready").get("lastTransitionTime"))

    @property
    def address(self) -> str | None:
        """IP to ask for the state; None while no engine container runs."""
        running = any(
            (c.get("state") or {}).get("running") for c in self.status.get("containerStatuses") or []
        )
        return str(self.status["podIP"]) if running and self.status.get("podIP") else None

    def condition(self, kind: str) -> Mapping[str, Any]:
        """One condition of the pod, or an empty mapping."""
        return condition(self.obj, kind)


@dataclass(frozen=True)
class Observed:
    """Deployment, pods and live settings at one moment. `pods` has those that are to stay, oldest first.

    `ended`: pods that failed and stay as a record; `claims`: phase by name of the claims that we made;
    `freed`: a pod ended just now, and the scheduler may not have looked since; `recent`: (good, all) requests
    by class over the attainment's window, of classes for which it is known; `idle`: classes without a request
    for some minutes.
    """

    deployment: Mapping[str, Any] | None
    pods: Sequence[PodView]
    draining: Sequence[PodView] = ()
    config: Written | None = None
    ended: Sequence[PodView] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    freed: bool = False
    recent: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
