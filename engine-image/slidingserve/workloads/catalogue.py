"""The named workloads: the paper's five, and three public traces.

ShareGPT and Arxiv: length pairs drawn with replacement from sets of 6,000 that have the statistics of Table 2
(``reweight``). Mixed: both, classes drawn 3:1 or 5:1. Azure and Mooncake: as many successive requests as
asked for, from a start that the seed draws. Each seed gives three independent streams (arrivals, lengths,
classes), so that another rate, another arrival pattern or another mix leaves the rest as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from slidingserve.workloads.arrivals import Arrivals, Switching, check_requests, generated, own
from slidingserve.workloads.stored import Stored, stored
from slidingserve.workloads.trace import Ints, Trace, WorkloadError, class_by_length, with_prefixes


class Streams(NamedTuple):
    """Independent generators of one seed."""

    arrivals: np.random.Generator
    lengths: np.random.Generator
    classes: np.random.Generator

    @staticmethod
    def of(seed: int) -> Streams:
        """The streams of a seed of 0 or more."""
        if not 0 <= seed < 1 << 63:
            raise WorkloadError(f"seed {seed}: must be 0 or more, below 2**63")
        return Streams(*(np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3)))


def _unplaced(drawn: Stored, slo_class: Ints) -> Trace:
    return Trace(
        arrival=np.zeros(len(drawn)),
        prompt_tokens=drawn.prompt_tokens,
        output_tokens=drawn.output_tokens,
        slo_class=slo_class,
    )


def _draw(name: str, requests: int, rng: np.random.Generator) -> Stored:
    source = stored(name)
    rows = rng.integers(0, len(source), size=requests)
    return Stored(source.prompt_tokens[rows], source.output_tokens[rows])


def _single(name: str, slo_class: int, requests: int, streams: Streams) -> Trace:
    return _unplaced(_draw(name, requests, streams.lengths), np.full(requests, slo_class, dtype=np.int64))


def _mixed(long: str, ratio: int, requests: int, streams: Streams) -> Trace:
    """``ratio`` dialogues for each summary, each request's class an independent draw."""
    short, other = streams.lengths.spawn(2)
    dialogue, summary = _draw("sharegpt", requests, short), _draw(long, requests, other)
    is_long = streams.classes.random(requests) * (ratio + 1) < 1
    mixed = Stored(
        np.where(is_long, summary.prompt_tokens, dialogue.prompt_tokens),
        np.where(is_long, summary.output_tokens, dialogue.output_tokens),
    )
    return _unplaced(mixed, is_long.astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Drawn:
    title: str
    make: Callable[[int, Streams], Trace]


@dataclass(frozen=True, slots=True)
class _Recorded:
    title: str
    data: str


_CATALOGUE: dict[str, _Drawn | _Recorded] = {
    "sharegpt": _Drawn("ShareGPT-like dialogue (Table 2)", partial(_single, "sharegpt", 0)),
    "arxiv_v1": _Drawn("Arxiv-like summaries, first subset (Table 2)", partial(_single, "arxiv_v1", 1)),
    "arxiv_v2": _Drawn("Arxiv-like summaries, second subset (Table 2)", partial(_single, "arxiv_v2", 1)),
    "mixed_v1": _Drawn("ShareGPT and Arxiv-v1, 3:1", partial(_mixed, "arxiv_v1", 3)),
    "mixed_v2": _Drawn("ShareGPT and Arxiv-v2, 5:1", partial(_mixed, "arxiv_v2", 5)),
    "azure_code_2023": _Recorded("Azure LLM inference, code, 2023", "azure_code_2023"),
    "azure_conv_2023": _Recorded("Azure LLM inference, conversation, 2023", "azure_conv_2023"),
    "mooncake": _Recorded("Mooncake, conversation, with shared prefixes", "mooncake"),
    "mooncake_synthetic": _Recorded("Mooncake, synthetic, with shared prefixes", "mooncake_synthetic"),
}


def names() -> dict[str, str]:
    """Every named workload with its title."""
    return {name: entry.title for name, entry in _CATALOGUE.items()}


def is_drawn(name: str) -> bool:
    """Whether the workload is drawn from a set, without end and without times of its own."""
    return isinstance(_CATALOGUE.get(name.replace("-", "_")), _Drawn)


def get(
    name: str,
    *,
    requests: int | None = 2000,
    qps: float | None = None,
    seed: int = 0,
    arrivals: Arrivals | None = None,
    switch: Switching | None = None,
) -> Trace:
    """The named workload on a time axis. Same arguments, same trace; WorkloadError says what cannot be.

    ``arrivals`` None: a recorded trace's own, else Poisson. ``poisson`` needs ``qps``. ``trace`` keeps the
    recorded arrivals, stretched to ``qps`` where it is given. ``switching`` follows ``switch``, scaled to a
    mean of ``qps`` where that is given; with ``requests`` None it runs for ``switch.total`` seconds. Recorded
    traces take all their requests for None.
    """
    entry = _CATALOGUE.get(name.replace("-", "_"))
    if entry is None:
        raise WorkloadError(f"workload {name!r}: is none of {', '.join(_CATALOGUE)}")
    if requests is not None:
        check_requests(requests)
    streams = Streams.of(seed)
    arrivals = arrivals or ("poisson" if isinstance(entry, _Drawn) else "trace")
    if arrivals == "trace":
        if isinstance(entry, _Drawn):
            raise WorkloadError(f"arrivals 'trace': workload {name!r} has none of its own; use poisson")
        trace = _window(entry.data, requests, streams)
        return replace(trace, arrival=own(trace.arrival, qps), name=entry.data)
    if isinstance(entry, _Recorded) and arrivals == "poisson" and requests is None:
        requests = len(stored(entry.data))
    times = generated(arrivals, requests, qps, switch, streams.arrivals)
    count = int(times.size)
    trace = entry.make(count, streams) if isinstance(entry, _Drawn) else _window(entry.data, count, streams)
    return replace(trace, arrival=times, name=name.replace("-", "_"))


def _window(name: str, requests: int | None, streams: Streams) -> Trace:
    """Successive requests of a recorded trace, at its own times."""
    source = stored(name)
    count = len(source) if requests is None else requests
    if count > len(source):
        raise WorkloadError(f"requests {count}: workload {name!r} holds {len(source)}; ask for fewer")
    start = int(streams.lengths.integers(0, len(source) - count + 1))
    rows = slice(start, start + count)
    arrival = np.zeros(count) if source.arrival is None else source.arrival[rows]
    trace = Trace(
        arrival=arrival - arrival[0],
        prompt_tokens=source.prompt_tokens[rows],
        output_tokens=source.output_tokens[rows],
        slo_class=class_by_length(source.prompt_tokens[rows]),
    )
    if source.prefix_ids is None or source.prefix_offsets is None:
        return trace
    ends = source.prefix_offsets[start : start + count + 1]
    return with_prefixes(trace, source.prefix_ids[ends[0] : ends[-1]], np.diff(ends), source.prefix_block)
