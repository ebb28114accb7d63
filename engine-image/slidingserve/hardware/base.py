"""What a hardware profile is, and the changes that people make to one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from slidingserve.hardware.timing import Timing


@dataclass(frozen=True)
class Hardware:
    """One model on one set of GPUs: times, memory, the engine's defaults there. Change it by the functions
    below or by `dataclasses.replace`."""

    name: str
    title: str
    timing: Timing = field(repr=False, compare=False)
    kv_tokens: int
    """Tokens that the KV cache holds, a multiple of the block size."""
    gpus: int
    max_tokens: int
    """vLLM's default for the tokens of a batch there."""
    max_requests: int
    """vLLM's default for the requests of a batch there."""
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    max_model_len: int
    sources: str = field(repr=False)
    """What of the times is measured, what is filled from where, what is assumed."""
    block_size: int = 16
    noise_sigma: float = 0.02
    """Batch times vary by a log-normal factor of median 1 and this sigma."""
    serving_overhead: float = 0.060
    """Seconds of "exclusive service" beside batches: tokenising, HTTP, waiting for the step."""


PCIE = (20e-6, 10e9)
"""An all-reduce over PCIe: seconds, and bytes a second."""
PCIE5 = (10e-6, 18e9)
"""The same over PCIe 5.0."""
NVLINK = (12e-6, 45e9)
"""An all-reduce over an NVLink bridge."""


def with_noise(hardware: Hardware, sigma: float) -> Hardware:
    """Batch times with another spread; 0 for none. Raises ValueError."""
    return replace(hardware, noise_sigma=_sane("noise sigma", sigma))


def with_overhead(hardware: Hardware, seconds: float) -> Hardware:
    """Another serving overhead, in seconds. Raises ValueError."""
    return replace(hardware, serving_overhead=_sane("serving overhead", seconds))


def with_host(hardware: Hardware, seconds: float) -> Hardware:
    """Another host time a step, in seconds. Raises ValueError."""
    return replace(hardware, timing=hardware.timing._replace(host=_sane("host time", seconds)))


def with_allreduce(hardware: Hardware, latency: float, bandwidth: float) -> Hardware:
    """Another link between the GPUs, such as `*NVLINK`; no change on one GPU. Raises ValueError."""
    fixed, slope = allreduce(hardware.gpus, hardware.layers, hardware.hidden, latency, bandwidth)
    return replace(hardware, timing=hardware.timing._replace(communication=fixed, communication_slope=slope))


def with_mixed_penalty(hardware: Hardware, share: float) -> Hardware:
    """Attention of mixed batches moved between the sum of its parts (0) and the profile's own surface (1)."""
    _sane("mixed penalty", share)
    timing = hardware.timing
    surface = timing.attention.copy()
    parts = surface[1:, :, :1, :1] + surface[:1, :1, 1:, :]
    surface[1:, :, 1:, :] = parts + share * (surface[1:, :, 1:, :] - parts)
    return replace(hardware, timing=timing._replace(attention=np.ascontiguousarray(surface)))


def allreduce(gpus: int, layers: int, hidden: int, latency: float, bandwidth: float) -> tuple[float, float]:
    """(seconds a step, seconds a token) of two all-reduces a layer of `hidden` 16-bit numbers a token."""
    _sane("all-reduce latency", latency)
    if not bandwidth > 0:
        raise ValueError(f"all-reduce bandwidth is {bandwidth}; give bytes a second above 0")
    if gpus == 1:
        return 0.0, 0.0
    return 2 * layers * latency, 2 * layers * hidden * 2 / bandwidth


def _sane(what: str, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{what} is {value}; give a number from 0 up")
    return value
