"""The four children of a resource, in the order in which they are written. Pure; called by `reconcile`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU

from . import config, pod
from .names import ENGINE_IMAGE, RESTART_HASH, child, config_name, digest, selector

# Time granted for scheduling and for pulling an engine image of several GiB.
PULL_SECONDS = 1200


@dataclass(frozen=True)
class Context:
    """What the children depend on besides the spec: default images, and what was written before."""

    engine_image: str
    engine_image_cpu: str
    deployment: Mapping[str, Any] | None = None
    config_map: Mapping[str, Any] | None = None


def build(resource: SLOServe, context: Context) -> list[Object]:
    """ServiceAccount, ConfigMap, Service, Deployment: each before what needs it."""
    return [
        child(resource, "v1", "ServiceAccount", resource.name, automountServiceAccountToken=False),
        config_map(resource, context),
        service(resource),
        deployment(resource, context),
    ]


def config_map(resource: SLOServe, context: Context) -> Object:
    """The live settings. A lost ConfigMap gets its generation back from the status."""
    before = [config.written(context.config_map)]
    if saved := resource.status.get("config"):
        before.append(config.Written(saved.get("revision", ""), saved.get("generation", 0)))
    document = config.document(resource, [label for label in before if label])
    data = {config.KEY: config.text(document)}
    return child(resource, "v1", "ConfigMap", config_name(resource.name), data=data)


def service(resource: SLOServe) -> Object:
    """Cluster-internal Service in front of all engines."""
    ports = [{"name": "http", "port": pod.PORT, "protocol": "TCP", "targetPort": "http"}]
    spec = {"type": "ClusterIP", "selector": selector(resource.name), "ports": ports}
    return child(resource, "v1", "Service", resource.name, spec=spec)


def endpoint(resource: SLOServe) -> str:
    """OpenAI base URL inside the cluster."""
    return f"http://{resource.name}.{resource.namespace}.svc:{pod.PORT}/v1"


def engine_image(resource: SLOServe, context: Context, restart_hash: str) -> str:
    """Image of the engine: the user's, else the one pinned at the last restart, else the default.

    The default moves with the operator; the pin keeps an operator upgrade from restarting engines.
    """
    engine = resource.spec.engine
    if engine.image:
        return engine.image
    pinned = ((context.deployment or {}).get("metadata") or {}).get("annotations") or {}
    if pinned.get(RESTART_HASH) == restart_hash and pinned.get(ENGINE_IMAGE):
        return str(pinned[ENGINE_IMAGE])
    return context.engine_image_cpu if engine.accelerator == CPU else context.engine_image


def deployment(resource: SLOServe, context: Context) -> Object:
    """The engines. Where no accelerator is spare, the old pod must go before the new one can come."""
    spec = resource.spec
    cold = {
        "model": spec.model.model_dump(by_alias=True, exclude_defaults=True),
        "engine": spec.engine.model_dump(by_alias=True, exclude_defaults=True),
    }
    restart_hash = digest(cold)
    image = engine_image(resource, context, restart_hash)
    deadline = pod.grace_seconds(spec.engine) + PULL_SECONDS + spec.engine.startup_timeout_seconds
    body = {
        "replicas": spec.replicas,
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": deadline,
        "selector": {"matchLabels": selector(resource.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": pod.template(resource, image),
    }
    annotations = {RESTART_HASH: restart_hash, ENGINE_IMAGE: image}
    return child(resource, "apps/v1", "Deployment", resource.name, annotations=annotations, spec=body)
