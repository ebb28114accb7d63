"""The engine pod: command line, devices, volumes, probes, drain. Pure; called by `workload`.

Nothing here depends on the operator's own version or on a hot setting, so neither restarts an engine.
"""

from typing import Any

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU, Engine, ModelSource

from .names import config_name, image_version, labels

PORT = 8000
CONTAINER = "main"
USER_ID = 1000
CONFIG_DIR = "/etc/slidingserve"
CACHE_DIR = "/var/cache/slidingserve"
MODEL_DIR = "/models/claim"
STATE_DIR = "/tmp/slidingserve"  # noqa: S108 - an emptyDir of the pod
DRAIN_WAIT_SECONDS = 10
"""For Service proxies and balancers to learn that the pod is not ready."""
STOP_MARGIN_SECONDS = 15
STARTUP_PROBE_SECONDS = 2
READINESS_PROBE_SECONDS = 5


def grace_seconds(engine: Engine) -> int:
    """Above the longest that preStop takes, or the kubelet cuts streams short."""
    return DRAIN_WAIT_SECONDS + engine.drain_timeout_seconds + STOP_MARGIN_SECONDS


def pre_stop(engine: Engine) -> Object:
    """Drain first, SIGTERM when no request can come any more.

    `--shutdown-timeout` has no part in it: it lets streams end where this hook could not run.
    """
    command = [
        *("slidingserve", "drain", f"--state-dir={STATE_DIR}"),
        *(f"--wait={DRAIN_WAIT_SECONDS}", f"--timeout={engine.drain_timeout_seconds}"),
    ]
    return {"exec": {"command": command}}


def model_path(model: ModelSource) -> str:
    """What `slidingserve serve` is given: a hub id, or a path in the pod."""
    scheme, _, rest = model.uri.partition("://")
    if scheme == "pvc":
        return "/".join([MODEL_DIR, *rest.split("/")[1:]])
    return rest


def served_name(model: ModelSource) -> str:
    """Model name that clients send."""
    if model.name:
        return model.name
    rest = model.uri.partition("://")[2]
    return rest if model.uri.startswith("hf://") else rest.rstrip("/").rsplit("/", 1)[-1]


def arguments(resource: SLOServe) -> list[str]:
    """Command line after `slidingserve serve MODEL`; the user's own words come last."""
    model, engine = resource.spec.model, resource.spec.engine
    words = [
        "--host=0.0.0.0",
        f"--port={PORT}",
        f"--slo-config={CONFIG_DIR}",
        f"--state-dir={STATE_DIR}",
        f"--served-model-name={served_name(model)}",
        f"--tensor-parallel-size={engine.tensor_parallel_size}",
        f"--shutdown-timeout={engine.drain_timeout_seconds}",
    ]
    if model.revision:
        words.append(f"--revision={model.revision}")
    if engine.max_model_length is not None:
        words.append(f"--max-model-len={engine.max_model_length}")
    return [*words, *engine.extra_args]


def environment(resource: SLOServe) -> list[Object]:
    """Writable homes for every cache, the hub's token, then the user's variables over ours."""
    engine, secret = resource.spec.engine, resource.spec.model.token_secret_ref
    ours = {
        "HOME": "/tmp/home",  # noqa: S108 - an emptyDir of the pod
        "USER": "slidingserve",
        "HF_HOME": f"{CACHE_DIR}/huggingface",
        "VLLM_CACHE_ROOT": f"{CACHE_DIR}/vllm",
        "TRITON_CACHE_DIR": f"{CACHE_DIR}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_DIR}/torchinductor",
        "NUMBA_CACHE_DIR": f"{CACHE_DIR}/numba",
        "XDG_CACHE_HOME": f"{CACHE_DIR}/xdg",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if engine.accelerator == CPU:
        ranks = engine.tensor_parallel_size
        ours["VLLM_CPU_KVCACHE_SPACE"] = "1"
        ours["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(ranks))) if ranks > 1 else "nobind"
    ours |= {variable.name: variable.value for variable in engine.env}
    out: list[Object] = [{"name": name, "value": value} for name, value in ours.items()]
    if secret and "HF_TOKEN" not in ours:
        source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
        out.append({"name": "HF_TOKEN", "valueFrom": source})
    return out


def resources(engine: Engine) -> Object:
    """The user's CPU and memory, and as many accelerators as ranks (limits imply equal requests)."""
    given = engine.resources
    out: dict[str, dict[str, Any]] = {}
    if given and given.requests:
        out["requests"] = {key: str(value) for key, value in given.requests.items()}
    if given and given.limits:
        out["limits"] = {key: str(value) for key, value in given.limits.items()}
    if engine.accelerator != CPU:
        out.setdefault("limits", {})[engine.accelerator] = str(engine.tensor_parallel_size)
    return out


def volumes(resource: SLOServe) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts. The ConfigMap is a directory, never a subPath: only so do changes arrive."""
    model, engine = resource.spec.model, resource.spec.engine
    pairs: list[tuple[Object, Object]] = [
        ({"configMap": {"name": config_name(resource.name)}}, {"mountPath": CONFIG_DIR, "readOnly": True}),
        ({"emptyDir": {}}, {"mountPath": "/tmp"}),  # noqa: S108 - an emptyDir of the pod
        ({"emptyDir": {}}, {"mountPath": CACHE_DIR}),
    ]
    names = ["config", "tmp", "cache"]
    # The CPU build runs even one rank as a process of its own and talks to it over shared memory.
    if engine.tensor_parallel_size > 1 or engine.accelerator == CPU:
        memory = {"medium": "Memory", "sizeLimit": str(engine.shared_memory_size)}
        pairs.append(({"emptyDir": memory}, {"mountPath": "/dev/shm"}))  # noqa: S108 - what ranks talk over
        names.append("dshm")
    if model.uri.startswith("pvc://"):
        claim = {"claimName": model.uri.removeprefix("pvc://").split("/")[0], "readOnly": True}
        pairs.append(({"persistentVolumeClaim": claim}, {"mountPath": MODEL_DIR, "readOnly": True}))
        names.append("model")
    return (
        [{"name": name, **volume} for name, (volume, _) in zip(names, pairs, strict=True)],
        [{"name": name, **mount} for name, (_, mount) in zip(names, pairs, strict=True)],
    )


def probes(engine: Engine) -> Object:
    """Ready is one real token after start; alive is vLLM's own /health."""
    ready = {"httpGet": {"path": "/slidingserve/v1/ready", "port": "http"}}
    return {
        "startupProbe": {
            **ready,
            "periodSeconds": STARTUP_PROBE_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": -(-engine.startup_timeout_seconds // STARTUP_PROBE_SECONDS),
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
        },
    }


def template(resource: SLOServe, image: str) -> Object:
    """Pod template that the restricted Pod Security standard admits."""
    engine = resource.spec.engine
    volume_list, mounts = volumes(resource)
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["slidingserve", "serve", model_path(resource.spec.model)],
        "args": arguments(resource),
        "env": environment(resource),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": mounts,
        "lifecycle": {"preStop": pre_stop(engine)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **probes(engine),
    }
    if limits := resources(engine):
        container["resources"] = limits
    spec: Object = {
        "serviceAccountName": resource.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(engine),
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
    if engine.node_selector:
        spec["nodeSelector"] = dict(engine.node_selector)
    if engine.tolerations:
        spec["tolerations"] = [t.model_dump(by_alias=True, exclude_none=True) for t in engine.tolerations]
    return {"metadata": {"labels": labels(resource.name, image_version(image))}, "spec": spec}
