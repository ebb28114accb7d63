"""Devices that are broken, by the kubelet's word and by the engine's last line. Pure; called by `reasons`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .api.conditions import Reason
from .desired.pod import CONTAINER
from .last_words import error_line
from .scheduling import Why
from .view import PodView

# What drivers and libraries say of a device that does not work: ECC errors, NVIDIA's Xid events, a GPU that
# fell off the bus, and the errors of CUDA and HIP that a broken device is behind more often than a program.
_BROKEN = re.compile(
    r"uncorrectable ECC|\bXid\b|fallen off the bus|GPU is lost|illegal memory access"
    r"|unspecified launch failure|hipErrorECCNotCorrectable|hardware (?:stack )?error|NVLink error",
    re.IGNORECASE,
)


def unhealthy(pod: PodView) -> Iterator[Why]:
    """A device of the pod that its plugin marked (Kubernetes' ResourceHealthStatus), or that the engine's
    last line tells of. The pod would be started with the same device again and again."""
    node = (pod.obj.get("spec") or {}).get("nodeName", "?")
    remedy = (
        f"Look at it (kubectl describe node {node}), then keep others away and start elsewhere: kubectl"
        f" cordon {node} && kubectl delete pod {pod.name}"
    )
    for container in pod.status.get("containerStatuses") or []:
        if marked := _marked(container):
            yield (
                Reason.DEVICE_UNHEALTHY,
                f"pod {pod.name} has broken devices on node {node}: {marked}. {remedy}",
            )
            return
    for container in pod.status.get("containerStatuses") or []:
        ended = _ended(container) if container.get("name") == CONTAINER else {}
        if _BROKEN.search(str(ended.get("message") or "")):
            line = error_line(ended)
            yield (
                Reason.DEVICE_UNHEALTHY,
                f"pod {pod.name} met a broken device on node {node}: {line}. {remedy}. If other nodes say the"
                " same, it is a fault of a program",
            )
            return


def _marked(container: Mapping[str, Any]) -> str:
    """`nvidia.com/gpu GPU-0000aaaa`, of those that are marked as unhealthy."""
    found = [
        f"{status.get('name')} {device.get('resourceID')}"
        for status in container.get("allocatedResourcesStatus") or []
        for device in status.get("resources") or []
        if device.get("health") == "Unhealthy"
    ]
    return ", ".join(found[:8])


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any]:
    ended: Mapping[str, Any] = (
        (container.get("state") or {}).get("terminated")
        or (container.get("lastState") or {}).get("terminated")
        or {}
    )
    return ended
