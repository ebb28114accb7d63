"""Volumes of the engine pod, paths within it, and the claim for the model cache. Pure; used by `pod`,
`command` and `workload`."""

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU
from sloserve_operator.api.spec_model import LoraAdapter, ModelSource

from .names import cache_name, child, config_name

CONFIG_DIR = "/etc/slidingserve"
CACHE_DIR = "/var/cache/slidingserve"
HUB_DIR = f"{CACHE_DIR}/huggingface"
MODEL_DIR = "/models/claim"
ADAPTER_DIR = "/models/adapters"
STATE_DIR = "/tmp/slidingserve"  # noqa: S108 - an emptyDir of the pod
PVC = "pvc://"


def _claim_of(uri: str) -> str:
    return uri.removeprefix(PVC).split("/")[0]


def _within(uri: str, directory: str) -> str:
    return "/".join([directory, *uri.removeprefix(PVC).split("/")[1:]])


def model_path(model: ModelSource) -> str:
    """What `slidingserve serve` is given: a hub id, or a path in the pod."""
    return _within(model.uri, MODEL_DIR) if model.uri.startswith(PVC) else model.uri.partition("://")[2]


def adapter_claims(resource: SLOServe) -> dict[str, str]:
    """Claims that hold adapters and where each is mounted; the model's own is mounted already."""
    model, adapters = resource.spec.model, resource.spec.engine.lora_adapters
    claims = dict.fromkeys(_claim_of(lora.uri) for lora in adapters if lora.uri.startswith(PVC))
    if model.uri.startswith(PVC):
        claims.pop(_claim_of(model.uri), None)
    return {claim: f"{ADAPTER_DIR}/{number}" for number, claim in enumerate(claims)}


def adapter_path(resource: SLOServe, lora: LoraAdapter) -> str:
    """A hub id, or a path in the pod."""
    if not lora.uri.startswith(PVC):
        return lora.uri.partition("://")[2]
    return _within(lora.uri, adapter_claims(resource).get(_claim_of(lora.uri), MODEL_DIR))


def cache_claim(resource: SLOServe) -> str | None:
    """Name of the claim that keeps downloaded weights, if there is one."""
    cache = resource.spec.storage.model_cache
    return (cache.existing_claim or cache_name(resource.name)) if cache else None


def claim(resource: SLOServe) -> Object | None:
    """The claim to be made for the model cache, if one is asked for."""
    cache = resource.spec.storage.model_cache
    if cache is None or cache.size is None:
        return None
    spec: Object = {
        "accessModes": list(cache.access_modes),
        "resources": {"requests": {"storage": str(cache.size)}},
    }
    if cache.storage_class_name:
        spec["storageClassName"] = cache.storage_class_name
    return child(resource, "v1", "PersistentVolumeClaim", cache_name(resource.name), spec=spec)


def volumes(resource: SLOServe) -> tuple[list[Object], list[Object]]:
    """Volumes and mounts. The ConfigMap is a directory, never a subPath: only so do changes arrive."""
    model, engine = resource.spec.model, resource.spec.engine
    found: list[tuple[str, Object, Object]] = [
        (
            "config",
            {"configMap": {"name": config_name(resource.name)}},
            {"mountPath": CONFIG_DIR, "readOnly": True},
        ),
        ("tmp", {"emptyDir": {}}, {"mountPath": "/tmp"}),  # noqa: S108 - an emptyDir of the pod
        ("cache", {"emptyDir": {}}, {"mountPath": CACHE_DIR}),
    ]
    # The CPU build runs even one rank as a process of its own and talks to it over shared memory.
    if engine.ranks > 1 or engine.accelerator == CPU:
        memory = {"medium": "Memory", "sizeLimit": str(engine.shared_memory_size)}
        found.append(("dshm", {"emptyDir": memory}, {"mountPath": "/dev/shm"}))  # noqa: S108 - what ranks talk over
    if model.uri.startswith(PVC):
        found.append(_read_only("model", _claim_of(model.uri), MODEL_DIR))
    if name := cache_claim(resource):
        found.append(("model-cache", {"persistentVolumeClaim": {"claimName": name}}, {"mountPath": HUB_DIR}))
    for number, (name, directory) in enumerate(adapter_claims(resource).items()):
        found.append(_read_only(f"adapters-{number}", name, directory))
    return (
        [{"name": name, **volume} for name, volume, _ in found],
        [{"name": name, **mount} for name, _, mount in found],
    )


def _read_only(name: str, claim_name: str, directory: str) -> tuple[str, Object, Object]:
    source = {"claimName": claim_name, "readOnly": True}
    return name, {"persistentVolumeClaim": source}, {"mountPath": directory, "readOnly": True}
