"""A batch as seven numbers (Table 1) and its scene (equation 3).

The paper calls two things u: the cached tokens of a request, which are here `cached`, and its urgency, which
lives in `core.sorter`. Decode or prefill is the request's phase, not its token count (equation 2 reads c <=
1): the last token of a prompt is a prefill.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Scene(StrEnum):
    """What a batch is made of: equation 3."""

    DECODE = "decode"
    PREFILL = "prefill"
    MIXED = "mixed"


class Features(NamedTuple):
    """x1 to x7 of Table 1, for c tokens computed on `cached` ones, over the prefills P and the decodes D.

    Every one grows, or stays, when a request gets more tokens or a request is added, so a model with weights
    that are not negative predicts no less for more work.
    """

    prefill_attention: float
    """x1: sum over P of c (cached + c)."""
    chunk_attention: float
    """x2: sum over P of c squared."""
    cached_tokens: float
    """x3: sum over P and D of cached."""
    decode_requests: float
    """x4: |D|."""
    decode_context: float
    """x5: sum over D of cached."""
    prefill_tokens: float
    """x6: sum over P of c."""
    largest_chunk: float
    """x7: the largest c in P."""

    @property
    def scene(self) -> Scene:
        """Pure decode, pure prefill or mixed. An empty batch counts as decode."""
        if not self.prefill_tokens:
            return Scene.DECODE
        return Scene.MIXED if self.decode_requests else Scene.PREFILL


def batch_features(decodes: Iterable[int], prefills: Iterable[tuple[int, int]]) -> Features:
    """Features of a batch that was really run.

    `decodes`: the cached tokens of each decode. `prefills`: (tokens computed, cached tokens before) of each
    prefill.
    """
    contexts = list(decodes)
    context = float(sum(contexts))
    attention = squares = cached = tokens = largest = 0
    for count, before in prefills:
        attention += count * (before + count)
        squares += count * count
        cached += before
        tokens += count
        largest = max(largest, count)
    return Features(
        float(attention),
        float(squares),
        cached + context,
        float(len(contexts)),
        context,
        float(tokens),
        float(largest),
    )
