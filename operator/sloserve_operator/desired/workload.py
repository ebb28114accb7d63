"""The children of a resource, in the order in which they are written. Pure; called by `reconcile`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU

from . import config, pod
from .command import PORT
from .names import (
    ENGINE_IMAGE,
    RESTART_HASH,
    RUN_AS,
    SCRAPE,
    TEMPLATE_HASH,
    TEMPLATE_VERSION,
    child,
    config_name,
    selector,
)
from .policies import disruption_budget, network_policy, operator_peer
from .restart import pinned, restart_hash, template_hash
from .storage import claim

# Time granted for scheduling and for pulling an engine image of several GiB.
PULL_SECONDS = 1200


@dataclass(frozen=True)
class Context:
    """What the children depend on besides the spec: default images, where the operator's own pods are (a
    NetworkPolicyPeer), as which user engines run that do not say, and what was written before."""

    engine_image: str
    engine_image_cpu: str
    deployment: Mapping[str, Any] | None = None
    config_map: Mapping[str, Any] | None = None
    operator: Mapping[str, Any] = field(default_factory=operator_peer)
    run_as: str = pod.FIXED


def build(resource: SLOServe, context: Context) -> list[Object]:
    """All children, each before what needs it."""
    found = [
        child(resource, "v1", "ServiceAccount", resource.name, automountServiceAccountToken=False),
        config_map(resource, context),
        claim(resource),
        service(resource, context),
        network_policy(resource, context.operator),
        disruption_budget(resource),
        deployment(resource, context),
    ]
    return [obj for obj in found if obj]


def config_map(resource: SLOServe, context: Context) -> Object:
    """The live settings. A lost ConfigMap gets its generation back from the status."""
    before = [config.written(context.config_map)]
    if saved := resource.status.get("config"):
        before.append(config.Written(saved.get("revision", ""), saved.get("generation", 0)))
    document = config.document(resource, [label for label in before if label])
    data = {config.KEY: config.text(document)}
    return child(resource, "v1", "ConfigMap", config_name(resource.name), data=data)


def service(resource: SLOServe, context: Context) -> Object:
    """Service in front of all engines: of both families only once they listen on both."""
    wanted = resource.spec.service
    ports = [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http"}]
    spec: Object = {"type": wanted.type, "selector": selector(resource.name), "ports": ports}
    version = pinned(resource, context.deployment).version or pod.current()
    families = wanted.ip_family_policy or (None if pod.VERSIONS[version].host else "PreferDualStack")
    if families:
        spec["ipFamilyPolicy"] = families
    return child(
        resource,
        "v1",
        "Service",
        resource.name,
        labels={**(wanted.labels or {}), SCRAPE: str(resource.spec.monitoring.scrape).lower()},
        annotations=wanted.annotations or {},
        spec=spec,
    )


def endpoint(resource: SLOServe) -> str:
    """OpenAI base URL inside the cluster."""
    return f"http://{resource.name}.{resource.namespace}.svc:{PORT}/v1"


def default_image(resource: SLOServe, context: Context) -> str:
    """Image of engines whose resource names none."""
    cpu = resource.spec.engine.accelerator == CPU
    return context.engine_image_cpu if cpu else context.engine_image


def strategy(resource: SLOServe) -> Object:
    """How pods are replaced; a rolling one is always sent in full."""
    wanted = resource.spec.rollout
    if wanted.type == "Recreate":
        return {"type": "Recreate"}
    rolling = {"maxSurge": wanted.max_surge, "maxUnavailable": wanted.max_unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def deployment(resource: SLOServe, context: Context) -> Object:
    """The engines, with the image, the user and the template version that they started with."""
    spec = resource.spec
    kept = pinned(resource, context.deployment)
    version, run_as = kept.version or pod.current(), kept.run_as or context.run_as
    image = spec.engine.image or kept.image or default_image(resource, context)
    grace = pod.grace_seconds(spec.engine, version)
    template = pod.template(resource, image, version, run_as)
    body = {
        "replicas": spec.replicas,
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": grace + PULL_SECONDS + spec.engine.startup_timeout_seconds,
        "selector": {"matchLabels": selector(resource.name)},
        "strategy": strategy(resource),
        "template": template,
    }
    annotations = {
        RESTART_HASH: kept.restart_hash or restart_hash(spec),
        TEMPLATE_HASH: template_hash(template),
        TEMPLATE_VERSION: str(version),
        RUN_AS: run_as,
        ENGINE_IMAGE: image,
    }
    return child(resource, "apps/v1", "Deployment", resource.name, annotations=annotations, spec=body)
