"""Resources, pods and engines by hand, for the operator's tests."""

from typing import Any

from sloserve_operator.api.engine import EngineState
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.view import PodView

UID = "11111111-1111-1111-1111-111111111111"


def spec(**changes: Any) -> dict[str, Any]:
    """A small valid spec; top-level fields can be replaced."""
    return {
        "model": {"uri": "hf://org/model"},
        "engine": {"tensorParallelSize": 2},
        "replicas": 1,
        "sloClasses": [
            {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40, "objectivePercent": 99},
            {"name": "batch", "ttft": {"milliseconds": 9000}, "tbtMilliseconds": 200},
        ],
        "defaultClass": "dialogue",
        "scheduler": {"policy": "slidingserve_paper", "alpha": 0.8},
        **changes,
    }


def manifest(generation: int = 1, status: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A SLOServe as the API server gives it."""
    return {
        "apiVersion": "sloserve.dev/v1alpha1",
        "kind": "SLOServe",
        "metadata": {
            "name": "chat",
            "namespace": "default",
            "uid": UID,
            "generation": generation,
            "resourceVersion": str(100 + generation),
        },
        "spec": spec(**changes),
        "status": status or {},
    }


def resource(generation: int = 1, status: dict[str, Any] | None = None, **changes: Any) -> SLOServe:
    """The same, parsed."""
    return SLOServe.parse(manifest(generation, status, **changes))


def state(revision: str, generation: int = 1, **more: Any) -> EngineState:
    """What an engine says."""
    return EngineState.model_validate(
        {"applied": {"revision": revision, "generation": generation}, "policy": "fcfs", **more}
    )


def pod(name: str = "chat-1", *, ready: bool = True, **status: Any) -> dict[str, Any]:
    """A pod of the resource; `status` fields replace those of a running one."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"sloserve.dev/name": "chat", "pod-template-hash": "5d4"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "chat-5d4", "uid": "rs", "controller": True}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": ready,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
            **status,
        },
    }


def view(
    name: str = "chat-1", engine: EngineState | None = None, unreachable: str = "", **more: Any
) -> PodView:
    """A pod with what its engine said."""
    return PodView(pod(name, **more), engine, unreachable)


def deployment(desired: int = 1, ready: int | None = None, **status: Any) -> dict[str, Any]:
    """A Deployment whose controller has seen it, with `ready` of `desired` pods available."""
    count = desired if ready is None else ready
    return {
        "metadata": {"name": "chat", "namespace": "default", "generation": 3},
        "spec": {"replicas": desired},
        "status": {
            "observedGeneration": 3,
            "replicas": desired,
            "updatedReplicas": desired,
            "readyReplicas": count,
            "availableReplicas": count,
            **status,
        },
    }
