"""The engine's pod template, version by version, with the user's podTemplate merged in. Pure; for `workload`.

Nothing here depends on the operator's own version or on a hot setting, so neither restarts an engine. What a
released version makes never changes: a different pod needs a new entry of VERSIONS, which only pods that
restart anyway get (tests/data/desired/templates holds what each version makes).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import Engine

from .accelerators import as_map, held, held_claims, pod_claims, resources
from .command import PORT, arguments, command, environment
from .merge import strategic
from .names import image_version, labels
from .storage import STATE_DIR, volumes

CONTAINER = "main"
USER_ID = 1000
FIXED, CLUSTER = "fixed", "cluster"
"""Who says as which user the pods run: we, or the cluster (a range for each namespace)."""
SLEEP_SECONDS = 5
DRAIN_WAIT_SECONDS = 10
"""For Service proxies and balancers to learn that the pod is not ready."""
STOP_MARGIN_SECONDS = 15
FAILED_SECONDS = 15
"""For a container that a probe gave up: nothing that it serves is worth the wait of a drain."""
IPV4 = "0.0.0.0"  # noqa: S104 - a pod is reached on its address
STARTUP_PROBE_SECONDS = 2
READINESS_PROBE_SECONDS = 5
# Of the container main, what the operator and the Service rely on: no podTemplate changes it.
HELD = (
    "name",
    "image",
    "command",
    "args",
    "lifecycle",
    "terminationMessagePolicy",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
)


@dataclass(frozen=True)
class Version:
    """In what the pods of one version differ from those of another."""

    pre_stop: Callable[[Engine], Object]
    pre_stop_seconds: int
    probe_grace: Mapping[str, int]
    """Added to the startup and the liveness probe. The kubelet runs preStop for them too."""
    host: str | None = None
    """Where the engine listens; None: on every family of addresses that its pod has."""
    reads_dropped_nulls: bool = True
    """Whether an empty securityContext in podTemplate leaves the user to the cluster: see `dropped_nulls`."""


def _sleep(_engine: Engine) -> Object:
    return {"sleep": {"seconds": SLEEP_SECONDS}}


def _drain(engine: Engine) -> Object:
    """Drain first, SIGTERM when no request can come any more.

    `--shutdown-timeout` has no part in it: it lets streams end where this hook could not run. 1 means that
    requests are still open. Any other failure is an engine image without the command: then as in version 1.
    """
    words = (
        *("slidingserve", "drain", f"--state-dir={STATE_DIR}"),
        *(f"--wait={DRAIN_WAIT_SECONDS}", f"--timeout={engine.drain_timeout_seconds}"),
    )
    script = f"{' '.join(words)} || {{ code=$?; [ $code = 1 ] || sleep {SLEEP_SECONDS}; exit $code; }}"
    return {"exec": {"command": ["sh", "-c", script]}}


VERSIONS = {
    1: Version(_sleep, SLEEP_SECONDS, {}, IPV4, reads_dropped_nulls=False),
    2: Version(_drain, DRAIN_WAIT_SECONDS, {"terminationGracePeriodSeconds": FAILED_SECONDS}, IPV4, False),
    3: Version(_drain, DRAIN_WAIT_SECONDS, {"terminationGracePeriodSeconds": FAILED_SECONDS}),
}


def current() -> int:
    """Version of pods that start anew."""
    return max(VERSIONS)


def grace_seconds(engine: Engine, version: int) -> int:
    """Above the longest that preStop takes, or the kubelet cuts streams short."""
    return VERSIONS[version].pre_stop_seconds + engine.drain_timeout_seconds + STOP_MARGIN_SECONDS


def probes(engine: Engine, version: int) -> Object:
    """Ready is one real token after start; alive is vLLM's own /health."""
    grace = VERSIONS[version].probe_grace
    ready = {"httpGet": {"path": "/slidingserve/v1/ready", "port": "http"}}
    return {
        "startupProbe": {
            **ready,
            "periodSeconds": STARTUP_PROBE_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": -(-engine.startup_timeout_seconds // STARTUP_PROBE_SECONDS),
            **grace,
        },
        "readinessProbe": {
            **ready,
            "periodSeconds": READINESS_PROBE_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": 2,
        },
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
            **grace,
        },
    }


def template(resource: SLOServe, image: str, version: int, run_as: str = FIXED) -> Object:
    """The pod template: ours, with the user's podTemplate merged in where it may be. `run_as` is for a
    resource that does not say."""
    if dropped_nulls(resource) and VERSIONS[version].reads_dropped_nulls:
        run_as = CLUSTER
    own = own_template(resource, image, version, run_as)
    given = resource.spec.pod_template
    if given is None:
        return own
    merged = strategic(own, given.model_dump(by_alias=True, exclude_unset=True))
    return _held(merged, own, resource.spec.engine)


def dropped_nulls(resource: SLOServe) -> bool:
    """Whether podTemplate has a securityContext without a field. Nobody writes one: it is what `kubectl
    apply`, a merge patch, leaves of `runAsUser: null`, which means to leave the user to the cluster."""
    given = resource.spec.pod_template
    spec = given.spec.model_dump(exclude_unset=True) if given and given.spec else {}
    return spec.get("securityContext") == {}


def own_template(resource: SLOServe, image: str, version: int, run_as: str = FIXED) -> Object:
    """Pod template that the restricted Pod Security standard admits."""
    engine = resource.spec.engine
    volume_list, mounts = volumes(resource)
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": engine.image_pull_policy,
        "command": command(resource),
        "args": arguments(resource, VERSIONS[version].host),
        "env": environment(resource),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": mounts,
        "lifecycle": {"preStop": VERSIONS[version].pre_stop(engine)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **probes(engine, version),
    }
    if engine.env_from:
        container["envFrom"] = [e.model_dump(by_alias=True, exclude_none=True) for e in engine.env_from]
    if limits := resources(engine):
        container["resources"] = limits
    spec: Object = {
        "serviceAccountName": resource.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(engine, version),
        "securityContext": _user(engine.run_as or run_as),
        "containers": [container],
        "volumes": volume_list,
    }
    if claims := pod_claims(engine):
        spec["resourceClaims"] = claims
    if engine.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in engine.image_pull_secrets]
    if engine.node_selector:
        spec["nodeSelector"] = dict(engine.node_selector)
    if engine.tolerations:
        spec["tolerations"] = [t.model_dump(by_alias=True, exclude_none=True) for t in engine.tolerations]
    return {"metadata": {"labels": labels(resource.name, image_version(image))}, "spec": spec}


def _user(run_as: str) -> Object:
    """Security context of the pod; the image's own user is no root either."""
    ids = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), USER_ID) if run_as == FIXED else {}
    return {"runAsNonRoot": True, **ids, "seccompProfile": {"type": "RuntimeDefault"}}


def _held(merged: Object, own: Object, engine: Engine) -> Object:
    """`merged` with everything that the rest of the system relies on as in `own`."""
    metadata, spec = merged.get("metadata") or {}, merged.get("spec") or {}
    own_spec, (own_main,) = own["spec"], own["spec"]["containers"]
    containers = list(spec.get("containers") or [])
    if CONTAINER not in [container.get("name") for container in containers]:
        containers.insert(0, own_main)
    out = {
        **spec,
        "terminationGracePeriodSeconds": own_spec["terminationGracePeriodSeconds"],
        "containers": [_main(c, own_main, engine) if c.get("name") == CONTAINER else c for c in containers],
        "volumes": _with(own_spec["volumes"][0], spec.get("volumes") or [], "name"),
    }
    if engine.resource_claims:
        out["resourceClaims"] = held_claims(spec.get("resourceClaims"), engine)
    user = metadata.get("labels") or {}
    return {"metadata": {**metadata, "labels": {**user, **own["metadata"]["labels"]}}, "spec": out}


def _main(container: Object, own: Object, engine: Engine) -> Object:
    out = {**container, **{key: own[key] for key in HELD}}
    out["ports"] = _with(own["ports"][0], container.get("ports") or [], "containerPort")
    out["volumeMounts"] = _with(own["volumeMounts"][0], container.get("volumeMounts") or [], "mountPath")
    if engine.device or engine.resource_claims:
        out["resources"] = held(container.get("resources"), engine)
    return out


def _with(ours: Object, merged: Any, key: str) -> Any:
    """The list with our item in its place, or first if it is gone; what is no list is for the server."""
    if not isinstance(merged, list):
        return merged
    there = [as_map(item).get(key) == ours[key] for item in merged]
    kept = [ours if same else item for item, same in zip(merged, there, strict=True)]
    return kept if any(there) else [ours, *kept]
