"""kopf as the informer: every watch event goes into the cache and asks for a look at its owner. Nothing else.

Registered by `app`. `on.event` only: it leaves no finalizer and no annotation on anybody's object. The one
`on.login` gives kopf the same credentials as `kube` has.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import kopf
import structlog

from .api import GROUP, KIND, PLURAL, VERSION
from .cache import Cache, owner_key
from .kube import SELECTOR
from .queue import KeyedQueue
from .telemetry import Telemetry

# (group, version, plural, kind) of what is watched; children and pods by our label, on the server's side.
CHILDREN = (
    ("apps", "v1", "deployments", "Deployment"),
    ("", "v1", "services", "Service"),
    ("", "v1", "configmaps", "ConfigMap"),
    ("", "v1", "serviceaccounts", "ServiceAccount"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    ("", "v1", "pods", "Pod"),
)
WATCHED = ((GROUP, VERSION, PLURAL, KIND), *CHILDREN)
log = structlog.stdlib.get_logger("sloserve.watch")


def settings() -> kopf.OperatorSettings:
    """kopf's settings: dead connections are noticed, no scanning, nothing posted, nothing persisted."""
    out = kopf.OperatorSettings()
    out.watching.server_timeout = 300
    out.watching.client_timeout = 310
    out.watching.connect_timeout = 30
    out.networking.request_timeout = 30
    out.networking.trust_env = False
    out.scanning.disabled = True
    out.posting.enabled = False
    out.persistence.finalizer = f"{GROUP}/unused"
    out.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    out.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    for group, version, plural, _ in CHILDREN:
        out.watching.label_selectors[(group, version, plural)] = SELECTOR
    return out


def register(
    registry: kopf.OperatorRegistry,
    cache: Cache,
    queue: KeyedQueue,
    telemetry: Telemetry,
    kubeconfig: Path | None,
) -> None:
    """Put the login and one handler per kind into `registry`."""

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        if kubeconfig:
            os.environ["KUBECONFIG"] = str(kubeconfig)
            return kopf.login_with_kubeconfig(**kwargs)
        info = kopf.login_with_service_account(**kwargs)
        host, port = (
            os.environ.get("KUBERNETES_SERVICE_HOST"),
            os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
        )
        if info is None or not host:
            return info
        # By address, like the client library: the operator must work while the cluster's DNS does not.
        return dataclasses.replace(info, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")

    for group, version, plural, kind in WATCHED:
        _watch(registry, (group, version, plural), kind, cache, queue, telemetry)


def _watch(
    registry: kopf.OperatorRegistry,
    resource: tuple[str, str, str],
    kind: str,
    cache: Cache,
    queue: KeyedQueue,
    telemetry: Telemetry,
) -> None:
    @kopf.on.event(*resource, registry=registry, id=f"watch-{kind.lower()}")
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        obj: dict[str, Any] = dict(event["object"])
        telemetry.events.labels(kind).inc()
        owner = owner_key(kind, obj)
        if event["type"] == "DELETED":
            cache.drop(kind, obj)
        elif not cache.put(kind, obj):
            return  # our own write, or already listed
        if owner:
            queue.add(owner, event=True)
