"""The profiles by name: which table feeds which, and the text that says so."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache

import numpy as np

from slidingserve.hardware import sources
from slidingserve.hardware.base import PCIE, PCIE5, Hardware, allreduce
from slidingserve.hardware.layers import Dense, every_count, fused, vidur
from slidingserve.hardware.shapes import GIB, LLAMA, QWEN, Shape, kv_tokens
from slidingserve.hardware.surface import Kernel, Surface, formula, measured, parts
from slidingserve.hardware.tables import fits
from slidingserve.hardware.timing import Timing

HOST = 2e-3
"""Seconds a step spends on the host where nothing hides it, assumed."""


def ga102(gpu: str, shape: Shape, bandwidth: float, memory: float) -> Hardware:
    """RTX 3090 and RTX A6000, tensor parallel 2: one chip, two memories. `bandwidth` in bytes a second."""
    prefill = fits()[f"{gpu}-tp2/prefill"]
    heads = shape.heads / LLAMA.heads
    kernel = Kernel(
        launch=prefill["launch"],
        walk=prefill["walk"],
        pair=prefill["pair"] * heads,
        query=prefill["query"] * heads,
        decode_launch=15e-6,
        decode_token=shape.kv_bytes / shape.layers / 2 / (0.73 * bandwidth),
        decode_request=0.18e-6 * heads,
        mixed=1.9,
    )
    link = allreduce(2, shape.layers, shape.hidden, *PCIE)
    return _hardware(
        f"{gpu.lower()}-tp2-{shape.slug}",
        f"{shape.title} on 2 x {_TITLES[gpu]}",
        shape,
        _timing(every_count(gpu, shape, 2), formula(kernel), shape.layers, link, HOST),
        gpus=2,
        kv=kv_tokens(shape, 2, memory),
        limits=(2048, 256),
        text=sources.ga102(gpu, shape.title, f"{shape.weight_bytes / 1e9:.2f}", shape.kv_bytes),
    )


def served(gpu: str, gpus: int, kv: int, limits: tuple[int, int]) -> Hardware:
    """RTX 4090 and RTX PRO 6000: vLLM's own kernels, dense and mixed attention, all measured."""
    link = allreduce(gpus, LLAMA.layers, LLAMA.hidden, *PCIE5)
    return _hardware(
        f"{gpu.lower()}-tp{gpus}-{LLAMA.slug}",
        f"{LLAMA.title} on {gpus} x {_TITLES[gpu]}" if gpus > 1 else f"{LLAMA.title} on {_TITLES[gpu]}",
        LLAMA,
        _timing(fused(gpu, gpus), measured(gpu, gpus), LLAMA.layers, link, 0.0),
        gpus=gpus,
        kv=kv,
        limits=limits,
        text=sources.served(gpu, gpus),
    )


def server(gpu: str, dense: Dense, walk: float, mixed: float, limits: tuple[int, int]) -> Hardware:
    """A100 and H100 of 80 GB: attention of vLLM's kernels in parts, dense layers from elsewhere."""
    return _hardware(
        f"{gpu.lower()}-tp1-{LLAMA.slug}",
        f"{LLAMA.title} on {_TITLES[gpu]}",
        LLAMA,
        _timing(dense, parts(gpu, walk, mixed), LLAMA.layers, (0.0, 0.0), 0.0),
        gpus=1,
        kv=kv_tokens(LLAMA, 1, 79.2 * GIB),
        limits=limits,
        text=sources.server(gpu),
    )


_TITLES = {
    "RTX3090": "RTX 3090",
    "A6000": "RTX A6000",
    "RTX4090": "RTX 4090",
    "RTXPRO6000": "RTX PRO 6000",
    "A100": "A100 80 GB",
    "H100": "H100 80 GB",
}

PROFILES: dict[str, Callable[[], Hardware]] = {
    "rtx3090-tp2-llama3.1-8b": lambda: ga102("RTX3090", LLAMA, 936e9, 24 * GIB),
    "rtx3090-tp2-qwen2.5-7b": lambda: ga102("RTX3090", QWEN, 936e9, 24 * GIB),
    "a6000-tp2-llama3.1-8b": lambda: ga102("A6000", LLAMA, 768e9, 48 * GIB),
    "a6000-tp2-qwen2.5-7b": lambda: ga102("A6000", QWEN, 768e9, 48 * GIB),
    "rtx4090-tp1-llama3.1-8b": lambda: served("RTX4090", 1, 41408, (2048, 256)),
    "rtxpro6000-tp1-llama3.1-8b": lambda: served(
        "RTXPRO6000", 1, kv_tokens(LLAMA, 1, 95.6 * GIB), (8192, 1024)
    ),
    "rtxpro6000-tp2-llama3.1-8b": lambda: served(
        "RTXPRO6000", 2, kv_tokens(LLAMA, 2, 95.6 * GIB), (8192, 1024)
    ),
    "a100-tp1-llama3.1-8b": lambda: server("A100", vidur(), 47e-9, 1.9, (2048, 256)),
    "h100-tp1-llama3.1-8b": lambda: server(
        "H100", every_count("H100", LLAMA, 1, fuse=True), fits()["H100"]["walk"], 1.0, (8192, 1024)
    ),
}


def names() -> tuple[str, ...]:
    """All profiles."""
    return tuple(PROFILES)


@cache
def get(name: str) -> Hardware:
    """The profile of that name. Raises ValueError with the nearest names."""
    if name not in PROFILES:
        near = get_close_matches(name, PROFILES, n=3, cutoff=0.3) or list(PROFILES)
        raise ValueError(f"hardware profile {name!r} is unknown; try {', '.join(near)}")
    return PROFILES[name]()


def _timing(dense: Dense, surface: Surface, layers: int, link: tuple[float, float], host: float) -> Timing:
    """Tables of one layer become tables of the model."""
    return Timing(
        dense=dense.tokens,
        dense_slope=dense.slope,
        head=dense.requests,
        head_slope=dense.requests_slope,
        chunks=surface.chunks,
        contexts=surface.contexts,
        decodes=surface.decodes,
        decode_contexts=surface.decode_contexts,
        attention=np.ascontiguousarray(surface.seconds * layers),
        skew=np.ascontiguousarray(surface.skew, dtype=np.float64),
        communication=link[0],
        communication_slope=link[1],
        host=host,
    )


def _hardware(
    name: str,
    title: str,
    shape: Shape,
    timing: Timing,
    *,
    gpus: int,
    kv: int,
    limits: tuple[int, int],
    text: str,
) -> Hardware:
    return Hardware(
        name=name,
        title=title,
        timing=timing,
        kv_tokens=kv,
        gpus=gpus,
        max_tokens=limits[0],
        max_requests=limits[1],
        layers=shape.layers,
        hidden=shape.hidden,
        ffn=shape.ffn,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_size=shape.head_size,
        vocab=shape.vocab,
        max_model_len=shape.max_model_len,
        sources=text,
    )
