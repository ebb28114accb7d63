"""Why a pod has no node yet, from the scheduler's sentence. Pure; called by `reasons`."""

import re
from collections.abc import Iterator, Mapping, Sequence

from .api.conditions import Reason
from .asked import Asked
from .view import Observed, PodView

Why = tuple[Reason, str]
_MISSING = re.compile(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)')
# What it says where no node has the devices that claims ask for.
_UNALLOCATED = "cannot allocate all claims"
_NO_CLASS = re.compile(r"device class (\S+) does not exist")
# What the scheduler says of claims that exist and hold no volume.
_UNBOUND = (
    "unbound immediate PersistentVolumeClaims",
    "find available persistent volumes",
    "binding volumes",
)


def unscheduled(pod: PodView, observed: Observed, asked: Asked) -> Iterator[Why]:
    """The one reason, if the scheduler has looked at the pod and found no place."""
    text = str(pod.condition("PodScheduled").get("message") or "")
    said = f"The scheduler: {_own_words(text)}"
    short = _short_of(text, asked.accelerators)
    taken = "Insufficient" in text or _UNALLOCATED in text
    if found := _MISSING.search(text):
        claim, how = found.groups()
        fault = "is not there" if how == "not found" else how
        remedy = f"Create the PersistentVolumeClaim {claim} in this namespace, or name another in the spec"
        yield Reason.CLAIM_MISSING, f"pod {pod.name} needs the claim {claim}, which {fault}. {remedy}"
    elif any(words in text for words in _UNBOUND):
        yield Reason.CLAIM_UNBOUND, _unbound(pod, observed.claims, asked.claims, said)
    elif observed.draining and taken:
        old = names(observed.draining)
        yield Reason.WAITING_FOR_DRAIN, f"pod {pod.name} waits for {old} to end its running requests"
    elif observed.freed and taken:
        what = "the scheduler to look again: the pod before it has just ended"
        yield Reason.WAITING_FOR_DRAIN, f"pod {pod.name} waits for {what}"
    elif short:
        asks = " and ".join(f"{asked.accelerators[name]} {name}" for name in short)
        remedy = "Free or add accelerators, or lower spec.engine.tensorParallelSize or spec.replicas"
        text = f"pod {pod.name} asks for {asks}, and no node has as many free. {remedy}. {said}"
        yield Reason.INSUFFICIENT_GPU, text
    elif found := _NO_CLASS.search(text):
        remedy = "Install the driver that brings it, or name another in the ResourceClaimTemplate"
        text = f"pod {pod.name} asks for devices of class {found[1]}, which is not there. {remedy}. {said}"
        yield Reason.UNSCHEDULABLE, text
    elif _UNALLOCATED in text:
        yield Reason.INSUFFICIENT_GPU, f"pod {pod.name} {_devices(asked.device_claims)}. {said}"
    else:
        yield Reason.UNSCHEDULABLE, f"pod {pod.name} fits on no node. {said}"


def _short_of(text: str, accelerators: Mapping[str, str]) -> list[str]:
    end = r"(?![\w-]|\.\w)"
    return [name for name in accelerators if re.search(f"Insufficient {re.escape(name)}{end}", text)]


def _devices(claims: Mapping[str, str]) -> str:
    """What asks for devices, and what to do."""
    holders = " and ".join(f"{name} ({source})" for name, source in claims.items()) or "of its podTemplate"
    return (
        f"asks for devices by the claim {holders}, and no node has them free. Free or add devices, or ask"
        " for fewer there and lower spec.engine.tensorParallelSize with it, or lower spec.replicas; a device"
        " class or selector that matches no device reads the same"
    )


def _unbound(pod: PodView, phases: Mapping[str, str], claims: tuple[str, ...], said: str) -> str:
    """Of our own claims we know the phase, of others the name alone."""
    pending = [name for name in claims if phases.get(name) not in (None, "Bound")]
    waits = ", ".join(pending or claims) or "of its podTemplate"
    return (
        f"pod {pod.name} needs the claim {waits}, which has no volume. Give it a StorageClass that"
        f" makes volumes (ours: spec.storage.modelCache.storageClassName), or a PersistentVolume;"
        f" `kubectl describe pvc` says more. {said}"
    )


def _own_words(text: str) -> str:
    """Without what it says of preemption, which never helps here."""
    kept = text.split(" preemption: ")[0].removesuffix(",").strip()
    return kept.removesuffix("no new claims to deallocate").strip() or "no node was found yet"


def names(pods: Sequence[PodView]) -> str:
    """`pod a, pod b`."""
    return ", ".join(f"pod {pod.name}" for pod in pods)
