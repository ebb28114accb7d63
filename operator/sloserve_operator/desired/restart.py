"""What a restart hangs on: a hash of the cold part of the spec, and what the last restart pinned. Pure; for
`workload`.

The default image and the template's version move with the operator; a Deployment whose hash is the same keeps
those it has, so that an operator upgrade restarts no engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.spec import SLOServeSpec
from sloserve_operator.api.spec_engine import Engine

from . import pod
from .names import ENGINE_IMAGE, RESTART_HASH, TEMPLATE_VERSION, digest
from .quantities import by_value, quantity

SHARED_MEMORY = quantity(Engine.model_fields["shared_memory_size"].default)


@dataclass(frozen=True)
class Pinned:
    """What the engines started with; None where the spec or the operator decides anew."""

    image: str | None = None
    version: int | None = None


def restart_hash(spec: SLOServeSpec) -> str:
    """Hash over values: another spelling of a quantity is no change."""
    cold = _cold(spec)
    if spec.pod_template:
        cold["podTemplate"] = spec.pod_template.model_dump(by_alias=True, exclude_unset=True)
    if cache := spec.storage.model_cache:
        cold["modelCache"] = cache.existing_claim or True
    if quantity(spec.engine.shared_memory_size) == SHARED_MEMORY:
        cold["engine"].pop("sharedMemorySize", None)
    return digest(by_value(cold))


def pinned(spec: SLOServeSpec, deployment: Mapping[str, Any] | None) -> Pinned:
    """What a Deployment keeps, if the spec asks for no restart."""
    notes = ((deployment or {}).get("metadata") or {}).get("annotations") or {}
    before = notes.get(RESTART_HASH)
    if before is None or before not in {restart_hash(spec), _first_hash(spec)}:
        return Pinned()
    version = notes.get(TEMPLATE_VERSION, "1")  # the first one was not written down
    known = int(version) if version.isdecimal() and int(version) in pod.VERSIONS else None
    return Pinned(notes.get(ENGINE_IMAGE), known)


def _cold(spec: SLOServeSpec) -> dict[str, Any]:
    return {
        "model": spec.model.model_dump(by_alias=True, exclude_defaults=True),
        "engine": spec.engine.model_dump(by_alias=True, exclude_defaults=True),
    }


def _first_hash(spec: SLOServeSpec) -> str | None:
    """The hash as operators wrote it that knew neither podTemplate nor storage, over spellings."""
    return None if spec.pod_template or spec.storage.model_cache else digest(_cold(spec))
