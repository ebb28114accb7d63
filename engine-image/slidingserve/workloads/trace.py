"""A workload as arrays: the one form in which simulator, bench and reports hold requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASSES = ("dialogue", "summarization")
"""The paper's two classes; `Trace.slo_class` counts them from 0."""

LONG_PROMPT = 2000
"""Prompts from here on are summarization, in traces that name no classes (tokens)."""


class WorkloadError(ValueError):
    """A workload that cannot be used; the text is one sentence with field, value and remedy."""


def _no_ids() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Trace:
    """n requests in the order of their arrival. Raises WorkloadError for arrays that contradict each other.

    The blocks of request i are ``prefix_ids[prefix_offsets[i]:prefix_offsets[i + 1]]``: one id for each full
    block of ``prefix_block`` tokens at the front of its prompt; equal ids are equal text up to there. No ids:
    it shares nothing that is known of.
    """

    arrival: Floats
    """Seconds from the start of the run, at least 0, not falling."""
    prompt_tokens: Ints
    """At least 1."""
    output_tokens: Ints
    """At least 1; the engine is made to generate exactly these."""
    slo_class: Ints
    """Index into ``class_names``."""
    class_names: tuple[str, ...] = CLASSES
    prefix_ids: Ints = field(default_factory=_no_ids)
    prefix_offsets: Ints = field(default_factory=_no_ids)
    """Shape (n + 1); made of zeros where it is not given."""
    prefix_block: int = 512
    name: str = ""
    """What the trace was made from, for titles and records."""

    def __post_init__(self) -> None:
        if self.prefix_offsets.size == 0:
            object.__setattr__(self, "prefix_offsets", np.zeros(len(self) + 1, dtype=np.int64))
        for name, kind in _KINDS.items():
            array = getattr(self, name)
            wanted = len(self) + (name == "prefix_offsets")
            if array.dtype != kind or array.ndim != 1 or (name != "prefix_ids" and array.size != wanted):
                raise WorkloadError(
                    f"trace: {name} is {array.dtype}{list(array.shape)}; wants {np.dtype(kind)}[{wanted}]"
                )
        for sound, sentence in self._rules():
            if not sound:
                raise WorkloadError(f"trace: {sentence}")

    def _rules(self) -> list[tuple[bool, str]]:
        classes, offsets = len(self.class_names), self.prefix_offsets
        return [
            (bool(np.all(np.isfinite(self.arrival) & (self.arrival >= 0))), "arrivals are seconds from 0 on"),
            (bool(np.all(np.diff(self.arrival) >= 0)), "arrivals are sorted"),
            (bool(np.all(self.prompt_tokens >= 1)), "prompt_tokens are 1 or more"),
            (bool(np.all(self.output_tokens >= 1)), "output_tokens are 1 or more"),
            (bool(np.all((self.slo_class >= 0) & (self.slo_class < classes))), "slo_class is in class_names"),
            (bool(offsets[0] == 0 and offsets[-1] == self.prefix_ids.size), "prefix_offsets span prefix_ids"),
            (bool(np.all(np.diff(offsets) >= 0)), "prefix_offsets do not fall"),
            (
                bool(np.all(np.diff(offsets) * self.prefix_block <= self.prompt_tokens)),
                "prefix blocks are full blocks of the prompt",
            ),
        ]

    def __len__(self) -> int:
        return int(self.arrival.size)

    @property
    def qps(self) -> float:
        """Mean arrivals a second, n over the time of the last one; inf if all come at once."""
        return len(self) / float(self.arrival[-1]) if len(self) and self.arrival[-1] > 0 else float("inf")

    def classes(self) -> list[str]:
        """The class of each request, by name."""
        return [self.class_names[index] for index in self.slo_class]

    def select(self, wanted: NDArray[np.bool_]) -> Trace:
        """The requests where ``wanted``, at their own times."""
        sizes = np.diff(self.prefix_offsets)
        return replace(
            self,
            arrival=self.arrival[wanted],
            prompt_tokens=self.prompt_tokens[wanted],
            output_tokens=self.output_tokens[wanted],
            slo_class=self.slo_class[wanted],
            prefix_ids=self.prefix_ids[np.repeat(wanted, sizes)],
            prefix_offsets=offsets_of(sizes[wanted]),
        )

    def digest(self) -> str:
        """A name for exactly these requests, for caches of runs."""
        state = hashlib.sha256(repr((self.class_names, self.prefix_block)).encode())
        for name in _KINDS:
            state.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return state.hexdigest()[:32]

    def summary(self) -> dict[str, Any]:
        """Counts, rate, and mean and P90 of the lengths: the columns of Table 2."""
        lengths = {"prompt": self.prompt_tokens, "output": self.output_tokens}
        counts = np.bincount(self.slo_class, minlength=len(self.class_names))
        return {
            "name": self.name,
            "requests": len(self),
            "seconds": float(self.arrival[-1]) if len(self) else 0.0,
            "qps": self.qps,
            "classes": dict(zip(self.class_names, counts.tolist(), strict=True)),
            **{
                f"{name}_mean": float(np.mean(array)) if len(self) else 0.0 for name, array in lengths.items()
            },
            **{
                f"{name}_p90": float(np.percentile(array, 90)) if len(self) else 0.0
                for name, array in lengths.items()
            },
        }


_KINDS: dict[str, type[np.generic]] = {
    "arrival": np.float64,
    "prompt_tokens": np.int64,
    "output_tokens": np.int64,
    "slo_class": np.int64,
    "prefix_ids": np.int64,
    "prefix_offsets": np.int64,
}


def offsets_of(sizes: Ints) -> Ints:
    """Offsets of consecutive runs of these sizes: n + 1 numbers, the first 0."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def class_by_length(prompt_tokens: Ints) -> Ints:
    """The rule for traces that name no classes: long prompts are summarization."""
    return (prompt_tokens >= LONG_PROMPT).astype(np.int64)


def with_prefixes(trace: Trace, ids: Ints, blocks: Ints, block: int) -> Trace:
    """Add prefix ids; a last block that the prompt does not fill is left out: nothing can reuse it.

    Ids are counted anew from 0 so that they stay small.
    """
    full = np.minimum(blocks, trace.prompt_tokens // block)
    within = np.arange(ids.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    kept = ids[within < np.repeat(full, blocks)]
    _, renumbered = np.unique(kept, return_inverse=True)
    return replace(
        trace,
        prefix_ids=renumbered.astype(np.int64).reshape(-1),
        prefix_offsets=offsets_of(full),
        prefix_block=block,
    )
