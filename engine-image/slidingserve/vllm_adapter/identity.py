"""Who this engine is, read from its VllmConfig: limits, indices of its processes, the key of its profile."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from typing import Any, NamedTuple

from slidingserve.predictor.profile import ProfileKey
from slidingserve.server import emulation
from slidingserve.server.emulation import Emulation
from slidingserve.vllm_adapter.gate import installed_version


class Limits(NamedTuple):
    """What one engine can do at most."""

    max_batch_tokens: int
    """Tokens of a step."""
    max_model_len: int
    max_requests: int
    """Requests of a step."""
    device: str
    """"cuda", "cpu", ..."""


def limits_of(config: Any) -> Limits:
    """From a VllmConfig."""
    scheduler = config.scheduler_config
    return Limits(
        max_batch_tokens=scheduler.max_num_scheduled_tokens or scheduler.max_num_batched_tokens,
        max_model_len=config.model_config.max_model_len,
        max_requests=scheduler.max_num_active_seqs or scheduler.max_num_seqs,
        device=str(config.device_config.device_type),
    )


def engine_label(config: Any) -> str:
    """The `engine` label of the metrics, as vLLM's own: the data parallel rank."""
    return str(config.parallel_config.data_parallel_index)


def core_index(config: Any) -> int:
    """Of this core among the cores of its pod."""
    return int(config.parallel_config.data_parallel_rank_local or 0)


def api_index(config: Any) -> int:
    """Of this API server among those of its pod."""
    return max(int(config.parallel_config._api_process_rank), 0)


def processes(config: Any) -> dict[str, int]:
    """How many processes of each role this pod has."""
    parallel = config.parallel_config
    return {"api": int(parallel._api_process_count), "core": max(int(parallel.data_parallel_size_local), 1)}


def profile_key(config: Any) -> ProfileKey:
    """All that batch times depend on."""
    from vllm.platforms import current_platform

    device = current_platform.get_device_name() if not current_platform.is_cpu() else _cpu_name()
    model, revision = str(config.model_config.model), str(config.model_config.revision or "")
    emulated = Emulation.from_env()
    if emulated is not None:
        model, revision, device = "emulated", emulation.fingerprint(emulated), emulated.profile
    return ProfileKey(
        vllm_version=installed_version(),
        model=model,
        revision=revision,
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        tensor_parallel=config.parallel_config.tensor_parallel_size,
        pipeline_parallel=config.parallel_config.pipeline_parallel_size,
        device=device,
        max_batched_tokens=limits_of(config).max_batch_tokens,
        async_scheduling=bool(config.scheduler_config.async_scheduling),
    )


def profile_name(key: ProfileKey) -> str:
    """The file of a profile: one for each key."""
    canonical = json.dumps(asdict(key), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16] + ".json"


def _cpu_name() -> str:
    """The processor's model; the machine type where the system does not say."""
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123 - a Path would read no faster
            line = next((text for text in file if text.startswith("model name")), "")
    except OSError:
        line = ""
    return line.partition(":")[2].strip() or platform.machine()
