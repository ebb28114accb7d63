"""Names, labels and hashes that every child shares. Used by the other modules of `desired` and by `cache`."""

import hashlib
import json
import re
from typing import Any

from sloserve_operator.api import GROUP
from sloserve_operator.api.resource import Object, SLOServe

from .quantities import by_value

MANAGER = "sloserve-operator"
MANAGED_BY = "app.kubernetes.io/managed-by"
# The one label that selects pods: it never changes, because a Deployment's selector cannot.
NAME_LABEL = f"{GROUP}/name"
APPLIED_HASH = f"{GROUP}/applied-hash"
RESTART_HASH = f"{GROUP}/restart-hash"
TEMPLATE_VERSION = f"{GROUP}/template-version"
TEMPLATE_HASH = f"{GROUP}/template-hash"
ENGINE_IMAGE = f"{GROUP}/engine-image"
RUN_AS = f"{GROUP}/run-as"
SCRAPE = f"{GROUP}/scrape"
NUDGE = f"{GROUP}/config-revision"


def config_name(name: str) -> str:
    """ConfigMap of a resource."""
    return f"{name}-config"


def cache_name(name: str) -> str:
    """Claim that is made for `storage.modelCache`."""
    return f"{name}-model-cache"


def selector(name: str) -> dict[str, str]:
    """Labels that select the engine pods."""
    return {NAME_LABEL: name}


def labels(name: str, version: str | None = None) -> dict[str, str]:
    """Labels of a child; `version` only where a change may restart pods."""
    out = {
        "app.kubernetes.io/name": "sloserve-engine",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/part-of": "slidingserve",
        MANAGED_BY: MANAGER,
        NAME_LABEL: name,
    }
    if version:
        out["app.kubernetes.io/version"] = version
    return out


def image_version(image: str) -> str:
    """Tag (or start of the digest) of an image as a label value."""
    rest = image.rsplit("/", 1)[-1]
    tag = rest.split("@sha256:")[1][:12] if "@sha256:" in rest else rest.partition(":")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", tag)[:63].strip("._-") or "latest"


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: what hashes are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any, length: int = 12) -> str:
    """First hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


def child(resource: SLOServe, api_version: str, kind: str, name: str, **body: Any) -> Object:
    """A child owned by the resource, with a hash of what we ask for (so that a removed field shows).

    `labels` and `annotations` among the body are the user's, under ours.
    """
    more = body.pop("labels", {})
    obj: Object = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": resource.namespace,
            "labels": {**more, **labels(resource.name)},
            "ownerReferences": [resource.reference()],
        },
        **body,
    }
    annotations = obj.pop("annotations", {})
    obj["metadata"]["annotations"] = {
        **annotations,
        # Over values: a Deployment's generation moves with its annotations.
        APPLIED_HASH: digest(by_value({**obj, "annotations": annotations})),
    }
    return obj
