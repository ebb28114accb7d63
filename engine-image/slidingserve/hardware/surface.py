"""The attention surface: seconds by the prefill's chunk and context and the decodes' count and context.

Measured where vLLM was measured on a mixed grid, else evaluated from a fitted formula on the same grid, so
that compiled code sees one kind of table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.columns import Floats
from slidingserve.hardware.tables import fits, load

CHUNKS = np.array([0, *(2.0**k for k in range(4, 12))])
CONTEXTS = np.array([0, *(2.0**k for k in range(4, 18))])
DECODES = np.array([0, *(2.0**k for k in range(11))])
DECODE_CONTEXTS = np.array([2.0**k for k in range(4, 18)])


class Surface(NamedTuple):
    """Axes and seconds of one layer."""

    chunks: Floats
    contexts: Floats
    decodes: Floats
    decode_contexts: Floats
    seconds: Floats
    skew: Floats
    """Shape 2 x decodes: `Timing.skew`."""


class Kernel(NamedTuple):
    """A kernel as the longer of two things, joined smoothly: sqrt(latency^2 + work^2). Seconds, one layer.

    Latency is the walk of one thread block along the longest context; work is what all blocks do.
    """

    launch: float
    walk: float
    """Seconds a token of the longest prefill context: no other block helps on the way."""
    pair: float
    """Seconds a query-key pair of a prefill."""
    query: float
    """Seconds a token of a prefill's chunk."""
    decode_launch: float
    decode_token: float
    """Seconds a cached token of a decode, in a batch of decodes alone."""
    decode_request: float
    """Seconds a decode, in a batch of decodes alone."""
    mixed: float
    """A decode's work beside a prefill over its work alone: heads that share keys then read them apart."""


def formula(kernel: Kernel) -> Surface:
    """The surface of a fitted kernel."""
    chunk, cached, count, context = np.meshgrid(CHUNKS, CONTEXTS, DECODES, DECODE_CONTEXTS, indexing="ij")
    prefilling, decoding = chunk > 0, count > 0
    longest = np.maximum((cached + chunk) * prefilling, context * decoding)
    decode_work = kernel.decode_token * count * context + kernel.decode_request * count
    work = kernel.pair * chunk * (cached + chunk / 2) + kernel.query * chunk + kernel.mixed * decode_work
    seconds = np.hypot(kernel.launch + kernel.walk * longest, work)
    alone = np.hypot(kernel.decode_launch, decode_work)
    seconds = np.where(prefilling, seconds, np.where(decoding, alone, 0.0))
    return Surface(CHUNKS, CONTEXTS, DECODES, DECODE_CONTEXTS, seconds, skew(2))


def skew(tensor_parallel: int) -> Floats:
    """What uneven decodes pay, from the RTX 4090: with heads split over GPUs a count is worth that much less,
    as the RTX PRO 6000's own two tables show."""
    counts = load("kernels")["axis/decodes"]
    own = load("kernels")["RTX4090-tp1/skew"]
    return np.stack([np.interp(DECODES / tensor_parallel, counts, row) for row in own])


def parts(gpu: str, walk: float, mixed: float) -> Surface:
    """A100 and H100: prefills without context and decodes alone are measured, their mixture is not.

    A prefill's context adds its pairs, or `walk` seconds a token where that is longer; a decode beside a
    prefill costs `mixed` times its time above an empty kernel's. Beyond the table decodes pay per token.
    """
    raw, fit = load("servers"), fits()[gpu]
    first = np.interp(CHUNKS, raw["prefill/tokens"], raw[f"{gpu}/prefill"].astype(np.float64))
    alone = np.zeros((DECODES.size, DECODE_CONTEXTS.size))
    alone[1:] = raw[f"{gpu}/decode"]
    for k in range(1, DECODE_CONTEXTS.size):
        beyond = alone[:, k - 1] + fit["decode_token"] * DECODES * (
            DECODE_CONTEXTS[k] - DECODE_CONTEXTS[k - 1]
        )
        alone[:, k] = np.where(np.isnan(alone[:, k]), beyond, alone[:, k])
    chunk, cached, count, context = np.meshgrid(CHUNKS, CONTEXTS, DECODES, DECODE_CONTEXTS, indexing="ij")
    work = first[:, None, None, None] + fit["pair"] * chunk * cached
    work = work + mixed * np.maximum(0.0, alone - alone[1, 0])
    seconds = np.hypot(walk * np.maximum(cached, context * (count > 0)), work)
    seconds[0] = alone
    return Surface(CHUNKS, CONTEXTS, DECODES, DECODE_CONTEXTS, seconds, skew(1))


def measured(gpu: str, tensor_parallel: int) -> Surface:
    """vLLM's measured mixed grid; its missing corner goes on straight from the last two counts."""
    raw = load("kernels")
    seconds = raw[f"{gpu}-tp{tensor_parallel}/attention"].astype(np.float64) * 1e-6
    seconds[1:, :, -1] = 3 * seconds[1:, :, -2] - 2 * seconds[1:, :, -3]
    axes = [
        raw[f"axis/{name}"].astype(np.float64) for name in ("chunk", "context", "decodes", "decode_context")
    ]
    return Surface(axes[0], axes[1], axes[2], axes[3], seconds, raw[f"{gpu}-tp{tensor_parallel}/skew"])
