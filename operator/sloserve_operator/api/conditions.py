"""Conditions of a SLOServe: types, reasons, and the merge that keeps transition times. Used by `status`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]
ORDER = ("SpecValid", "Progressing", "ConfigApplied", "Ready")


class Reason(StrEnum):
    """Every reason that the operator writes."""

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
    UNSCHEDULABLE = "Unschedulable"
    WAITING_FOR_DRAIN = "WaitingForDrain"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    CRASH_LOOP = "CrashLoop"
    REPLICA_FAILURE = "ReplicaFailure"
    STARTING = "Starting"
    PENDING = "Pending"
    FORBIDDEN = "Forbidden"
    # Progressing
    STABLE = "Stable"
    ROLLING_OUT = "RollingOut"
    DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    BLOCKED = "Blocked"
    # ConfigApplied
    APPLIED = "Applied"
    WAITING_FOR_PODS = "WaitingForPods"
    POD_UNREACHABLE = "PodUnreachable"
    CONFIG_REJECTED = "ConfigRejected"
    NO_PODS = "NoPods"
    NOT_WRITTEN = "NotWritten"


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
