"""Which Kubernetes events to post when a condition changes. Pure; called by `reconcile`."""

from collections.abc import Iterator, Mapping
from typing import Any

from .api import API_VERSION, GROUP, KIND
from .api.conditions import ORDER, Reason
from .desired.names import MANAGER, digest

NOTE_BYTES = 1024
# Conditions whose False is worth a warning only for these reasons; the rest are steps on the way.
WARNINGS = {
    Reason.INVALID_SPEC, Reason.CHILD_REFUSED, Reason.NAME_COLLISION, Reason.FORBIDDEN, Reason.UNSCHEDULABLE,
    Reason.IMAGE_PULL, Reason.CONTAINER_CONFIG, Reason.CRASH_LOOP, Reason.REPLICA_FAILURE,
    Reason.DEADLINE_EXCEEDED, Reason.CONFIG_REJECTED, Reason.POD_UNREACHABLE, Reason.FALLBACK,
    Reason.CHILD_NOT_WRITTEN, Reason.CHILD_DELETING, Reason.CHILD_CONTESTED,
    Reason.QUOTA_EXCEEDED, Reason.CLAIM_MISSING, Reason.CLAIM_UNBOUND, Reason.MODEL_NOT_FOUND,
    Reason.HUB_BUSY, Reason.HUB_UNREACHABLE,
    Reason.TOKEN_MISSING, Reason.TOKEN_REFUSED, Reason.DEVICE_UNHEALTHY,
    Reason.OUT_OF_MEMORY, Reason.PROBE_FAILING, Reason.KILLED,
    Reason.NODE_LOST, Reason.INSUFFICIENT_GPU, Reason.EVICTED,
    Reason.OBJECTIVE_MISSED,
}  # fmt: skip
VAGUE = ("timed out waiting for the condition", "context deadline exceeded")
NEWS = {Reason.ALL_REPLICAS_READY, Reason.SCALED_TO_ZERO, Reason.APPLIED, Reason.OBJECTIVES_MET}


def transitions(
    obj: Mapping[str, Any],
    old: list[Mapping[str, Any]],
    new: list[Mapping[str, Any]],
    now: str,
    instance: str,
) -> Iterator[dict[str, Any]]:
    """An event for every condition that turned to a reason worth telling. `now`: RFC 3339, microseconds."""
    before = {c["type"]: _state(c) for c in old}
    told = set()
    for condition in new:
        kind, reason = condition["type"], condition["reason"]
        state = _state(condition)
        if before.get(kind) == state or reason in told or reason not in WARNINGS | NEWS:
            continue
        told.add(reason)
        # An operator that was killed in between may come here twice: the API server knows the name then.
        stamp = digest([obj["metadata"]["uid"], kind, *state, condition["lastTransitionTime"]], 16)
        # Those of one second are listed by name: first the cause.
        stamp = f"{ORDER.index(kind)}{stamp}"
        yield event(obj, stamp, kind, condition, now, instance)


def _state(condition: Mapping[str, Any]) -> tuple[str, str, str]:
    """What is news when it changes. Of most messages only whether they name a cause: the kubelet's first word
    on a missing Secret is "timed out", and only the next one names it."""
    message = condition["message"]
    if condition["type"] != "ConfigApplied":
        message = "vague" if any(words in message for words in VAGUE) else ""
    return condition["status"], condition["reason"], message


def event(
    obj: Mapping[str, Any], stamp: str, action: str, condition: Mapping[str, Any], now: str, instance: str
) -> dict[str, Any]:
    """One v1 event about the resource.

    Not of events.k8s.io, which takes no lastTimestamp: kubectl describe and --sort-by go by that.
    """
    meta, reason = obj["metadata"], condition["reason"]
    second = now.partition(".")[0].rstrip("Z") + "Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{stamp}", "namespace": meta["namespace"]},
        "eventTime": now,
        "firstTimestamp": second,
        "lastTimestamp": second,
        "count": 1,
        "source": {"component": MANAGER},
        "reportingComponent": f"{GROUP}/{MANAGER}",
        "reportingInstance": instance[:128],
        "action": action,
        "reason": reason,
        "type": "Warning" if reason in WARNINGS else "Normal",
        "message": condition["message"].encode()[:NOTE_BYTES].decode(errors="ignore"),
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
    }
