"""Dense layers by the count of tokens, output head and sampler by the count of requests: tables from tables.

Two profilers made the raw tables: one measured fifteen operators at every count from 1 to 2048 (a sample
each), the other nine fused kernels of vLLM at 165 counts (a mean of three each).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slidingserve.core.columns import Floats
from slidingserve.hardware.shapes import LLAMA, Shape
from slidingserve.hardware.tables import load

LAST = 2048
MOST_REQUESTS = 1024


@dataclass(frozen=True)
class Dense:
    """Seconds by tokens (0..2048) and by requests (0..), with the slopes beyond."""

    tokens: Floats
    slope: float
    requests: Floats
    requests_slope: float


def unspiked(times: Floats) -> Floats:
    """Median of three neighbours along the last axis: a lone spike goes, a stair stays to the token."""
    middle = np.median(np.stack([times[..., :-2], times[..., 1:-1], times[..., 2:]]), axis=0)
    return np.concatenate([times[..., :1], middle, times[..., -1:]], axis=-1)


def end_slope(table: Floats, span: int) -> float:
    """Seconds a step of the index over the last `span` entries."""
    return float(table[-1] - table[-1 - span]) / span


def every_count(gpu: str, shape: Shape, tensor_parallel: int, *, fuse: bool = False) -> Dense:
    """From operators measured on Llama-3.1-8B at every count; another model by the ratio of its sizes.

    `fuse` takes norms, rotary embedding and activation from vLLM's fused kernels on the RTX PRO 6000 instead:
    the profiler ran them unfused, which a fast GPU feels. The H100 has twice that GPU's memory bandwidth.
    """
    raw = load("layers")
    names = [str(name) for name in raw["operators"]]
    table = unspiked(raw[f"{gpu}-tp{tensor_parallel}"].astype(np.float64) * 1e-9)
    ratio = ratios(shape)
    layer = np.zeros(LAST)
    for name, row in zip(names, table, strict=True):
        if name in ratio and name != "lm_head":
            layer += row * ratio[name]
    if fuse:
        for name, kernel in FUSED.items():
            layer += _kernel("RTXPRO6000-tp1", kernel) - table[names.index(name)]
    once = (
        table[names.index("embedding")] * ratio["norm"]
        + table[names.index("final_layernorm")] * ratio["norm"]
    )
    tokens = np.concatenate([[0.0], shape.layers * layer + once])
    head = table[names.index("lm_head")][:MOST_REQUESTS] * ratio["lm_head"]
    requests = np.concatenate([[0.0], head + sampler(head.size, shape)])
    return Dense(tokens, end_slope(tokens, 512), requests, end_slope(requests, 256))


FUSED = {
    "input_layernorm": "layernorm",
    "post_layernorm": "layernorm",
    "rope": "rotary_emb",
    "act_fn": "act_fn",
}
"""Operators of the first profiler and vLLM's kernels for them."""


def _kernel(prefix: str, name: str) -> Floats:
    """Seconds of one of vLLM's kernels for 1..2048 tokens; a count between pays what the next one pays.

    Kernels work in tiles and vLLM pads to its captured sizes: on tables with every count the next one errs
    half as much as a straight line does.
    """
    raw = load("kernels")
    row = raw[f"{prefix}/tokens"][[str(kernel) for kernel in raw["kernels"]].index(name)]
    return np.asarray(row[np.searchsorted(raw["tokens"], np.arange(1, LAST + 1))] * 1e-6)


def vidur() -> Dense:
    """A100: Vidur's fused operators at 450 counts, the head by aiconfigurator's product of 65,536 rows."""
    raw = load("servers")
    once = np.array([str(name) == "emb" for name in raw["A100/operators"]])
    times = raw["A100/layers"].astype(np.float64)
    step = np.where(once, 1.0, LLAMA.layers) @ times
    tokens = np.zeros(LAST + 1)
    tokens[1:] = step[np.searchsorted(raw["A100/tokens"], np.arange(1, LAST + 1))]
    counts = np.arange(1, MOST_REQUESTS + 1)
    head = np.interp(counts, raw["A100/head_at"], raw["A100/head"]) * LLAMA.vocab / 65536
    requests = np.concatenate([[0.0], head + sampler(MOST_REQUESTS, LLAMA)])
    return Dense(tokens, end_slope(tokens, 512), requests, end_slope(requests, 256))


def ratios(shape: Shape) -> dict[str, float]:
    """Time of each operator of `shape` over Llama-3.1-8B's: elements of the matrix, or width of the row.

    Both weight traffic and arithmetic of a matrix product follow its elements at a given count of tokens.
    """
    query = shape.hidden * shape.heads / (LLAMA.hidden * LLAMA.heads)
    key = shape.hidden * shape.kv_heads / (LLAMA.hidden * LLAMA.kv_heads)
    ffn = shape.hidden * shape.ffn / (LLAMA.hidden * LLAMA.ffn)
    width = shape.hidden / LLAMA.hidden
    return {
        "q_proj": query,
        "k_proj": key,
        "v_proj": key,
        "o_proj": query,
        "gate_proj": ffn,
        "up_proj": ffn,
        "down_proj": ffn,
        "input_layernorm": width,
        "post_layernorm": width,
        "rope": shape.heads / LLAMA.heads,
        "act_fn": shape.ffn / LLAMA.ffn,
        "norm": width,
        "lm_head": shape.hidden * shape.vocab / (LLAMA.hidden * LLAMA.vocab),
    }


def sampler(most: int, shape: Shape) -> Floats:
    """Sampler by 1..most requests as vLLM's ran on the RTX 4090, by the size of the vocabulary."""
    measured = load("kernels")
    at, times = measured["sequences"], measured["RTX4090-tp1/sequences"][1] * 1e-6
    counts = np.arange(1, most + 1)
    beyond = np.maximum(0, counts - at[-1]) * (times[-1] - times[-9]) / (at[-1] - at[-9])
    return np.asarray((np.interp(counts, at, times) + beyond) * shape.vocab / LLAMA.vocab)


def fused(gpu: str, tensor_parallel: int) -> Dense:
    """From vLLM's own kernels at 165 counts."""
    raw = load("kernels")
    prefix = f"{gpu}-tp{tensor_parallel}"
    step = np.zeros(LAST)
    for name in raw["kernels"]:
        once = name in ("embedding", "final_layernorm")
        each = 2 if name == "layernorm" else 1
        step += (1 if once else each * LLAMA.layers) * _kernel(prefix, str(name))
    tokens = np.concatenate([[0.0], step])
    sequences = raw["sequences"]
    both = raw[f"{prefix}/sequences"].sum(axis=0) * 1e-6
    requests = np.concatenate([[0.0], np.interp(np.arange(1, sequences[-1] + 1), sequences, both)])
    return Dense(tokens, end_slope(tokens, 512), requests, end_slope(requests, 64))
