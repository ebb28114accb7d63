"""Conditions of a SLOServe: types, reasons, and the merge that keeps transition times. Used by `status`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]
ORDER = ("SpecValid", "Progressing", "ConfigApplied", "SLOMet", "Ready")


class Reason(StrEnum):
    """Every reason that the operator writes; of those of pods that are not ready the first is the gravest.

    `reason_docs` says of each what it means and what to do.
    """

    # SpecValid
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    CHILD_REFUSED = "ChildRefused"
    # Ready
    ALL_REPLICAS_READY = "AllReplicasReady"
    FALLBACK = "StockSchedulerInForce"
    SCALED_TO_ZERO = "ScaledToZero"
    NAME_COLLISION = "NameCollision"
    WAITING_FOR_CLEANUP = "WaitingForCleanup"
    FORBIDDEN = "Forbidden"
    CHILD_NOT_WRITTEN = "ChildNotWritten"
    CHILD_DELETING = "ChildBeingDeleted"
    CHILD_CONTESTED = "ChildContested"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REPLICA_FAILURE = "ReplicaFailure"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_UNBOUND = "ClaimUnbound"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    TOKEN_MISSING = "TokenMissing"  # noqa: S105 - a reason, no secret
    TOKEN_REFUSED = "TokenRefused"  # noqa: S105 - a reason, no secret
    MODEL_NOT_FOUND = "ModelNotFound"
    HUB_BUSY = "HubBusy"
    HUB_UNREACHABLE = "HubUnreachable"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    PROBE_FAILING = "ProbeFailing"
    KILLED = "Killed"
    NODE_LOST = "NodeLost"
    READINESS_GATE = "ReadinessGate"
    INSUFFICIENT_GPU = "InsufficientGPU"
    UNSCHEDULABLE = "Unschedulable"
    EVICTED = "Evicted"
    WAITING_FOR_DRAIN = "WaitingForDrain"
    STARTING = "Starting"
    PENDING = "Pending"
    CONFIG_NOT_APPLIED = "ConfigNotApplied"
    # Progressing
    STABLE = "Stable"
    ROLLING_OUT = "RollingOut"
    PAUSED = "Paused"
    DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    BLOCKED = "Blocked"
    # ConfigApplied
    APPLIED = "Applied"
    PARTLY_APPLIED = "PartlyApplied"
    WAITING_FOR_PODS = "WaitingForPods"
    POD_UNREACHABLE = "PodUnreachable"
    CONFIG_REJECTED = "ConfigRejected"
    NO_PODS = "NoPods"
    NOT_WRITTEN = "NotWritten"
    # SLOMet
    OBJECTIVES_MET = "ObjectivesMet"
    OBJECTIVE_MISSED = "ObjectiveMissed"
    TOO_FEW_REQUESTS = "TooFewRequests"
    IDLE = "Idle"


@dataclass(frozen=True)
class Condition:
    """What `status` decided; times and generations are added by `merge`."""

    type: str
    status: Status
    reason: Reason
    message: str


def merge(
    old: Sequence[Mapping[str, Any]], new: Sequence[Condition], generation: int, now: str
) -> list[dict[str, Any]]:
    """`status.conditions` of `new`: lastTransitionTime moves only where the status flips.

    `now` is RFC 3339 in UTC; `old` is what the API server holds.
    """
    before = {condition["type"]: condition for condition in old}
    merged = []
    for condition in sorted(new, key=lambda c: ORDER.index(c.type)):
        previous = before.get(condition.type)
        same = previous is not None and previous.get("status") == condition.status
        merged.append(
            {
                "type": condition.type,
                "status": condition.status,
                "observedGeneration": generation,
                "lastTransitionTime": previous["lastTransitionTime"] if previous and same else now,
                "reason": str(condition.reason),
                "message": condition.message[:32768],
            }
        )
    return merged
