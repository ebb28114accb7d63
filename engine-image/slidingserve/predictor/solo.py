"""Solo times: how long a prompt would take alone on this engine, by its length.

A limit given as a slowdown is a multiple of this, frozen at arrival. The engine's core makes the table from
its model; the API servers, which know no model, read it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slidingserve.predictor.features import batch_features
from slidingserve.predictor.model import LatencyModel

SOLO_CHUNK = 2048
SERVING_OVERHEAD_SECONDS = 0.06
"""Tokenising, HTTP and the first step, which "exclusive service" includes too."""


@dataclass(frozen=True)
class SoloTable:
    """Prompt lengths, ascending, and the seconds to the first token of each."""

    lengths: tuple[int, ...]
    lasting: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse a table that cannot be looked up in. Raises ValueError."""
        rising = all(a < b for a, b in zip(self.lengths, self.lengths[1:], strict=False))
        sane = all(math.isfinite(s) and s > 0 for s in self.lasting)
        if len(self.lengths) < 2 or len(self.lengths) != len(self.lasting) or not rising or not sane:
            raise ValueError(
                "solo table: lengths must rise, with one positive time each, two or more; make it anew"
            )

    @classmethod
    def from_model(
        cls,
        model: LatencyModel,
        *,
        max_prompt: int,
        max_chunk: int = SOLO_CHUNK,
        overhead_seconds: float = SERVING_OVERHEAD_SECONDS,
    ) -> SoloTable:
        """Prefill alone in chunks of up to `max_chunk` (at most 2,048), plus the overhead."""
        chunk = max(1, min(max_chunk, SOLO_CHUNK))
        marks = set(range(chunk, max_prompt + 1, chunk)) | {1, max(max_prompt, 2)}
        step = 16.0
        while step < max_prompt:
            marks.add(int(step))
            step *= 1.25
        whole = [0.0]  # seconds for the first i full chunks
        for i in range(max_prompt // chunk):
            whole.append(whole[-1] + model.predict(batch_features([], [(chunk, i * chunk)])))
        lengths = sorted(marks)
        lasting = []
        for length in lengths:
            full, rest = divmod(length, chunk)
            last = model.predict(batch_features([], [(rest, full * chunk)])) if rest else 0.0
            lasting.append(overhead_seconds + whole[full] + last)
        return cls(tuple(lengths), tuple(lasting))

    def seconds(self, prompt_tokens: int) -> float:
        """Time to the first token of a prompt alone: linear between the table's lengths and beyond them."""
        right = min(max(bisect_left(self.lengths, prompt_tokens), 1), len(self.lengths) - 1)
        (x0, x1), (y0, y1) = self.lengths[right - 1 : right + 1], self.lasting[right - 1 : right + 1]
        return max(y0 + (y1 - y0) * (prompt_tokens - x0) / (x1 - x0), self.lasting[0])

    def to_json(self) -> dict[str, Any]:
        """As a JSON object: {"prompt_tokens": [...], "seconds": [...]}."""
        return {"prompt_tokens": list(self.lengths), "seconds": list(self.lasting)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SoloTable:
        """The inverse of `to_json`. Raises ValueError (or KeyError, TypeError) on anything else."""
        lengths = tuple(int(n) for n in document["prompt_tokens"])
        return cls(lengths, tuple(float(s) for s in document["seconds"]))
