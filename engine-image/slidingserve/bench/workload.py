"""What is sent and when: a trace (``slidingserve.workloads``), a user's file, or a mix made from a seed.

First stage of the bench.  An item carries lengths and a class; its prompt is a text of the user's or random
token ids drawn from the seed, so that two runs of one seed send the same bytes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slidingserve.workloads import Report, Trace, WorkloadError
from slidingserve.workloads.arrivals import RATES
from slidingserve.workloads.fields import CLASS_FORM, MOST_TOKENS, is_class
from slidingserve.workloads.trace import Floats

__all__ = ["ClassMix", "Item", "Promise", "WorkloadError", "generate", "of_file", "of_trace"]

TWO_CLASS = "two-class"

# Token ids that every tokenizer in use has and that are ordinary text in all of them: past the special ids at
# the front, below the 256 of the smallest (byte-level) vocabulary.
_TOKEN_IDS = (16, 250)


@dataclass(frozen=True, slots=True)
class Promise:
    """Limits of a request in seconds."""

    ttft: float
    tbt: float


@dataclass(frozen=True, slots=True)
class Item:
    """One request to send: ``arrival`` in seconds from the start, lengths in tokens."""

    index: int
    arrival: float
    slo_class: str | None
    prompt_tokens: int
    output_tokens: int
    prompt: str | None = None
    prefix: tuple[int, ...] = ()
    """Ids of the full blocks of ``prefix_block`` tokens that it begins with."""
    prefix_block: int = 0
    promise: Promise | None = None

    def token_ids(self, seed: int) -> list[int]:
        """Random token ids of this item: the same for the same seed, distinct between items.

        Blocks of the same id are the same in every item.
        """
        parts = [_tokens([seed, block, 1], self.prefix_block) for block in self.prefix]
        parts.append(_tokens([seed, self.index], self.prompt_tokens - len(self.prefix) * self.prefix_block))
        return [token for part in parts for token in part]


def _tokens(entropy: list[int], count: int) -> list[int]:
    rng = np.random.default_rng(entropy)
    return [int(token) for token in rng.integers(*_TOKEN_IDS, size=count)]


def of_trace(trace: Trace, ttft: Floats | None = None, tbt: Floats | None = None) -> list[Item]:
    """Every request of a trace, with its promise (s) where there is one.

    Requests that share prefix blocks send the same tokens there.
    """
    classes, offsets = trace.classes(), trace.prefix_offsets.tolist()
    return [
        Item(
            index=index,
            arrival=float(trace.arrival[index]),
            slo_class=classes[index],
            prompt_tokens=int(trace.prompt_tokens[index]),
            output_tokens=int(trace.output_tokens[index]),
            prefix=tuple(trace.prefix_ids[offsets[index] : offsets[index + 1]].tolist()),
            prefix_block=trace.prefix_block,
            promise=None if ttft is None or tbt is None else Promise(float(ttft[index]), float(tbt[index])),
        )
        for index in range(len(trace))
    ]


def of_file(trace: Trace, report: Report, promised: Container[str] = ()) -> list[Item]:
    """The requests of a trace that was read from a file, with the texts that the file has.

    A row without a class asks for none, which leaves it to the server, unless its class by length is one of
    ``promised``.
    """
    return [
        replace(
            item,
            prompt=row.prompt or None,
            slo_class=row.slo_class or (item.slo_class if item.slo_class in promised else None),
        )
        for item, row in zip(of_trace(trace), report.usable, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class ClassMix:
    """A class of a generated mix: its share of the requests and inclusive ranges of lengths in tokens."""

    name: str
    share: float
    prompt: tuple[int, int]
    output: tuple[int, int]

    @staticmethod
    def parse(text: str) -> ClassMix:
        """Read ``NAME:SHARE:PROMPT_LOW-HIGH:OUTPUT_LOW-HIGH``; raises WorkloadError."""
        try:
            name, share, prompt, output = text.split(":")
            mix = ClassMix(name, float(share), _span(prompt), _span(output))
        except ValueError as error:
            raise WorkloadError(
                f"--mix {text!r}: write NAME:SHARE:PROMPT_LOW-HIGH:OUTPUT_LOW-HIGH, "
                "for example dialogue:0.8:32-96:24-48"
            ) from error
        if not is_class(name):
            raise WorkloadError(f"--mix {text!r}: {name!r} is no class name: {CLASS_FORM}")
        if not 0 < mix.share < float("inf"):
            raise WorkloadError(f"--mix {text!r}: needs a share above 0")
        return mix


def _span(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    span = int(low), int(high or low)
    if not 1 <= span[0] <= span[1] <= MOST_TOKENS:
        raise ValueError(text)
    return span


DEFAULT_MIX = (
    ClassMix("dialogue", 0.8, (32, 96), (24, 48)),
    ClassMix("summarization", 0.2, (600, 1200), (8, 16)),
)


def generate(mixes: Sequence[ClassMix], requests: int, rate: float, seed: int) -> list[Item]:
    """A Poisson stream of ``requests`` at ``rate`` requests a second, classes dealt by share.

    The number of each class is exact (rounded shares, shuffled), so that a small sample holds every class.
    Same arguments, same items.
    """
    if not mixes or requests < len(mixes):
        raise WorkloadError(
            f"--requests {requests}: needs at least one request for each of {len(mixes)} classes"
        )
    if not RATES[0] <= rate <= RATES[1]:
        raise WorkloadError(f"--rate {rate:g}: must be above 0 requests a second, from 1e-6 to 1e6")
    rng = np.random.default_rng(seed)
    deal = _deal([mix.share for mix in mixes], requests)
    order = rng.permutation(np.repeat(np.arange(len(mixes)), deal))
    arrivals = np.cumsum(rng.exponential(1 / rate, size=requests))
    arrivals -= arrivals[0]
    items = []
    for index, which in enumerate(order):
        mix = mixes[which]
        prompt = int(rng.integers(mix.prompt[0], mix.prompt[1] + 1))
        output = int(rng.integers(mix.output[0], mix.output[1] + 1))
        items.append(Item(index, float(arrivals[index]), mix.name, prompt, output))
    return items


def _deal(shares: Sequence[float], total: int) -> list[int]:
    """Whole counts that sum to ``total``, by largest remainder, at least 1 each."""
    exact = [share / sum(shares) * total for share in shares]
    counts = [max(1, int(value)) for value in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: exact[i] - int(exact[i]), reverse=True)
    for step in range(total - sum(counts)):
        counts[by_remainder[step % len(counts)]] += 1
    while sum(counts) > total:
        counts[counts.index(max(counts))] -= 1
    return counts
