"""The engine's pod template, version by version, with the user's podTemplate merged in. Pure; for `workload`.

Nothing here depends on the operator's own version or on a hot setting, so neither restarts an engine. What a
released version makes never changes: a different pod needs a new entry of VERSIONS, which only pods that
restart anyway get (tests/data/desired/templates holds what each version makes).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU, Engine

from .command import PORT, arguments, command, environment
from .merge import strategic
from .names import image_version, labels
from .storage import STATE_DIR, volumes

CONTAINER = "main"
USER_ID = 1000
SLEEP_SECONDS = 5
DRAIN_WAIT_SECONDS = 10
"""For Service proxies and balancers to learn that the pod is not ready."""
STOP_MARGIN_SECONDS = 15
FAILED_SECONDS = 15
"""For a container that a probe gave up: nothing that it serves is worth the wait of a drain."""
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
    1: Version(_sleep, SLEEP_SECONDS, {}),
    2: Version(_drain, DRAIN_WAIT_SECONDS, {"terminationGracePeriodSeconds": FAILED_SECONDS}),
}


def current() -> int:
    """Version of pods that start anew."""
    return max(VERSIONS)


def grace_seconds(engine: Engine, version: int) -> int:
    """Above the longest that preStop takes, or the kubelet cuts streams short."""
    return VERSIONS[version].pre_stop_seconds + engine.drain_timeout_seconds + STOP_MARGIN_SECONDS


def resources(engine: Engine) -> Object:
    """The user's CPU and memory, and as many accelerators as ranks (limits imply equal requests)."""
    given = engine.resources
    out: dict[str, dict[str, Any]] = {}
    if given and given.requests:
        out["requests"] = {key: str(value) for key, value in given.requests.items()}
    if given and given.limits:
        out["limits"] = {key: str(value) for key, value in given.limits.items()}
    if engine.accelerator != CPU:
        out.setdefault("limits", {})[engine.accelerator] = str(engine.ranks)
    return out


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


def template(resource: SLOServe, image: str, version: int) -> Object:
    """The pod template: ours, with the user's podTemplate merged in where it may be."""
    own = own_template(resource, image, version)
    given = resource.spec.pod_template
    if given is None:
        return own
    merged = strategic(own, given.model_dump(by_alias=True, exclude_unset=True))
    return _held(merged, own, resource.spec.engine)


def own_template(resource: SLOServe, image: str, version: int) -> Object:
    """Pod template that the restricted Pod Security standard admits."""
    engine = resource.spec.engine
    volume_list, mounts = volumes(resource)
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": engine.image_pull_policy,
        "command": command(resource),
        "args": arguments(resource),
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
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volume_list,
    }
    if engine.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in engine.image_pull_secrets]
    if engine.node_selector:
        spec["nodeSelector"] = dict(engine.node_selector)
    if engine.tolerations:
        spec["tolerations"] = [t.model_dump(by_alias=True, exclude_none=True) for t in engine.tolerations]
    return {"metadata": {"labels": labels(resource.name, image_version(image))}, "spec": spec}


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
    user = metadata.get("labels") or {}
    return {"metadata": {**metadata, "labels": {**user, **own["metadata"]["labels"]}}, "spec": out}


def _main(container: Object, own: Object, engine: Engine) -> Object:
    out = {**container, **{key: own[key] for key in HELD}}
    out["ports"] = _with(own["ports"][0], container.get("ports") or [], "containerPort")
    out["volumeMounts"] = _with(own["volumeMounts"][0], container.get("volumeMounts") or [], "mountPath")
    if engine.accelerator != CPU:
        given = _map(container.get("resources"))
        limits = {**_map(given.get("limits")), engine.accelerator: str(engine.ranks)}
        requests = {k: v for k, v in _map(given.get("requests")).items() if k != engine.accelerator}
        rest = {key: value for key, value in given.items() if key != "requests"}
        out["resources"] = {**rest, "limits": limits, **({"requests": requests} if requests else {})}
    return out


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _with(ours: Object, merged: Any, key: str) -> Any:
    """The list with our item in its place, or first if it is gone; what is no list is for the server."""
    if not isinstance(merged, list):
        return merged
    there = [_map(item).get(key) == ours[key] for item in merged]
    kept = [ours if same else item for item, same in zip(merged, there, strict=True)]
    return kept if any(there) else [ours, *kept]
