"""The engine's command line and environment. Pure; called by `pod`."""

from sloserve_operator.api.resource import Object, SLOServe
from sloserve_operator.api.spec_engine import CPU
from sloserve_operator.api.spec_model import ModelSource

from .config import number
from .storage import CACHE_DIR, CONFIG_DIR, HUB_DIR, STATE_DIR, adapter_path, model_path

PORT = 8000


def served_name(model: ModelSource) -> str:
    """Model name that clients send."""
    if model.name:
        return model.name
    rest = model.uri.partition("://")[2]
    return rest if model.uri.startswith("hf://") else rest.rstrip("/").rsplit("/", 1)[-1]


def command(resource: SLOServe) -> list[str]:
    """Program and model."""
    return ["slidingserve", "serve", model_path(resource.spec.model)]


def arguments(resource: SLOServe, host: str | None) -> list[str]:
    """Command line after `slidingserve serve MODEL`; the user's own words come last. `host` None: the
    engine's own choice, which is every family that the pod has."""
    model, engine = resource.spec.model, resource.spec.engine
    words = [
        *([f"--host={host}"] if host else []),
        f"--port={PORT}",
        f"--slo-config={CONFIG_DIR}",
        f"--state-dir={STATE_DIR}",
        f"--served-model-name={served_name(model)}",
        f"--tensor-parallel-size={engine.tensor_parallel_size}",
        f"--shutdown-timeout={engine.drain_timeout_seconds}",
    ]
    if engine.pipeline_parallel_size > 1:
        words.append(f"--pipeline-parallel-size={engine.pipeline_parallel_size}")
    optional = {
        "revision": model.revision,
        "max-model-len": engine.max_model_length,
        "dtype": model.dtype,
        "quantization": model.quantization,
        "max-num-seqs": engine.max_num_seqs,
        "max-num-batched-tokens": engine.max_num_batched_tokens,
        "gpu-memory-utilization": number(engine.gpu_memory_utilization),
    }
    words += [f"--{name}={value}" for name, value in optional.items() if value is not None]
    if engine.lora_adapters:
        modules = [f"{lora.name}={adapter_path(resource, lora)}" for lora in engine.lora_adapters]
        words += ["--enable-lora", "--lora-modules", *modules]
    return [*words, *engine.extra_args]


def environment(resource: SLOServe) -> list[Object]:
    """Writable homes for every cache and the secrets, then the user's variables over them."""
    engine = resource.spec.engine
    ours = {
        "HOME": "/tmp/home",  # noqa: S108 - an emptyDir of the pod
        "USER": "slidingserve",
        "HF_HOME": HUB_DIR,
        "VLLM_CACHE_ROOT": f"{CACHE_DIR}/vllm",
        "TRITON_CACHE_DIR": f"{CACHE_DIR}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_DIR}/torchinductor",
        "NUMBA_CACHE_DIR": f"{CACHE_DIR}/numba",
        "XDG_CACHE_HOME": f"{CACHE_DIR}/xdg",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if engine.accelerator == CPU:
        ranks = engine.ranks
        ours["VLLM_CPU_KVCACHE_SPACE"] = "1"
        ours["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(ranks))) if ranks > 1 else "nobind"
    out: dict[str, Object] = {name: {"name": name, "value": value} for name, value in ours.items()}
    for variable in engine.env:
        given = variable.model_dump(by_alias=True, exclude_none=True)
        if variable.value_from:
            del given["value"]
        out[variable.name] = given
    secrets = {"HF_TOKEN": resource.spec.model.token_secret_ref, "VLLM_API_KEY": engine.api_key_secret_ref}
    for name, secret in secrets.items():
        if secret and name not in out:
            source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
            out[name] = {"name": name, "valueFrom": source}
    return list(out.values())
