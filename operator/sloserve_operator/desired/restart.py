"""What a restart hangs on: a hash of the cold part of the spec, and what the last restart pinned. Pure; for
`workload`.

The default image, the default user and the template's version move with the operator; a Deployment keeps
those it has while the hash is the same, so that an operator upgrade restarts no engine. It keeps them too
while the pod is the same: another spelling of the spec (an empty podTemplate, a default in so many words) is
no change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.resource import SLOServe
from sloserve_operator.api.spec import SLOServeSpec
from sloserve_operator.api.spec_engine import Engine

from . import pod
from .drift import ZERO_IS_ABSENT
from .names import ENGINE_IMAGE, RESTART_HASH, RUN_AS, TEMPLATE_HASH, TEMPLATE_VERSION, digest
from .quantities import by_value, quantity

# To select everything (an empty one) and nothing (none) are two things.
SELECTORS = ("labelSelector", "namespaceSelector", "podSelector", "selector")
SHARED_MEMORY = quantity(Engine.model_fields["shared_memory_size"].default)


@dataclass(frozen=True)
class Pinned:
    """What the engines started with; None where the spec or the operator decides anew."""

    image: str | None = None
    version: int | None = None
    run_as: str | None = None
    restart_hash: str | None = None


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


def template_hash(template: Mapping[str, Any]) -> str:
    """Hash of a pod template as the API server would keep it: what means nothing is left out."""
    return digest(by_value(_meant(template)))


def pinned(resource: SLOServe, deployment: Mapping[str, Any] | None) -> Pinned:
    """What a Deployment keeps, if the spec asks for no restart."""
    spec, live = resource.spec, deployment or {}
    notes = (live.get("metadata") or {}).get("annotations") or {}
    written = notes.get(RESTART_HASH)
    if written is None:
        return Pinned()
    version = notes.get(TEMPLATE_VERSION, "1")  # the first one was not written down
    known = int(version) if version.isdecimal() and int(version) in pod.VERSIONS else None
    image, run_as, now = notes.get(ENGINE_IMAGE), notes.get(RUN_AS, pod.FIXED), restart_hash(spec)
    if written not in {now, _first_hash(spec)}:
        start = spec.engine.image or image
        if not known or not start or _unread(resource, known):
            return Pinned()
        if template_hash(pod.template(resource, start, known, run_as)) != notes.get(TEMPLATE_HASH):
            return Pinned()
        now = written
    # Where no pod runs, as when the cluster refuses the user that they ask for, today's default does no harm.
    there = (live.get("status") or {}).get("replicas")
    return Pinned(image, known, run_as if there else None, now)


def _unread(resource: SLOServe, version: int) -> bool:
    """Whether this version's pods cannot do what a podTemplate now asks for, so that they look the same."""
    return pod.dropped_nulls(resource) and not pod.VERSIONS[version].reads_dropped_nulls


def _meant(value: Any, key: str = "") -> Any:
    """Without what the API server leaves out or fills in alike: null, "", empty maps and lists."""
    if isinstance(value, Mapping):
        inner = {name: _meant(item, name) for name, item in value.items()}
        return {
            name: item
            for name, item in inner.items()
            if not (item in (None, "", {}, []) and name not in SELECTORS)
            and not (name in ZERO_IS_ABSENT and not item)
        }
    return [_meant(item) for item in value] if isinstance(value, list) else value


def _cold(spec: SLOServeSpec) -> dict[str, Any]:
    unseen = {"resource_claims": {"__all__": {"count"}}}  # it is checked, and no part of a pod
    return {
        "model": spec.model.model_dump(by_alias=True, exclude_defaults=True),
        "engine": spec.engine.model_dump(by_alias=True, exclude_defaults=True, exclude=unseen),
    }


def _first_hash(spec: SLOServeSpec) -> str | None:
    """The hash as operators wrote it that knew neither podTemplate nor storage, over spellings."""
    return None if spec.pod_template or spec.storage.model_cache else digest(_cold(spec))
