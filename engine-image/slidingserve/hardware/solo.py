"""How long a prompt takes alone on this hardware: the base of every limit that is given as a slowdown."""

from __future__ import annotations

import numpy as np

from slidingserve.core.columns import Floats, Ints
from slidingserve.core.compiled import compiled
from slidingserve.hardware.base import Hardware
from slidingserve.hardware.timing import Timing, batch_seconds

CHUNK = 2048
"""Tokens of the longest step of a prefill alone, vLLM's default on most GPUs."""


def solo_seconds(hardware: Hardware, prompt_tokens: Ints) -> Floats:
    """Seconds to the first token of each prompt alone, serving overhead included, noise not."""
    lengths = np.ascontiguousarray(prompt_tokens, dtype=np.int64)
    return _alone(hardware.timing, lengths) + hardware.serving_overhead


@compiled
def _alone(timing: Timing, lengths: Ints) -> Floats:
    """Prefill alone, chunk after chunk; whole chunks are shared by all prompts."""
    longest = 0
    for length in lengths:
        longest = max(longest, length)
    none = np.zeros(0, np.int64)
    tokens = np.full(1, CHUNK, np.int64)
    cached = np.zeros(1, np.int64)
    whole = np.zeros(longest // CHUNK + 1)
    for k in range(1, len(whole)):
        cached[0] = (k - 1) * CHUNK
        whole[k] = whole[k - 1] + batch_seconds(timing, tokens, cached, none)
    seconds = np.zeros(len(lengths))
    for i in range(len(lengths)):
        k = lengths[i] // CHUNK
        cached[0] = k * CHUNK
        tokens[0] = lengths[i] - cached[0]
        seconds[i] = whole[k] + (batch_seconds(timing, tokens, cached, none) if tokens[0] > 0 else 0.0)
    return seconds
