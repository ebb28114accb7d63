"""What each request is promised, before anything is sent: classes, limits, and one table of solo times.

Solo times come from outside the engine (a hardware profile, or a table of measured ones), so that every
policy is judged by the same promises whatever its own predictor says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slidingserve.bench.workload import Item, Promise
from slidingserve.workloads import WorkloadError
from slidingserve.workloads.records import Bad, records
from slidingserve.workloads.slo import Slo
from slidingserve.workloads.trace import Floats, Ints

Solo = Callable[[Ints], Floats]
"""Seconds to the first token of prompts of these lengths, each alone on the server."""


def promised(items: Sequence[Item], slos: Mapping[str, Slo], solo: Solo | None = None) -> list[Item]:
    """The items with their limits; a class without an Slo is promised nothing.

    Raises WorkloadError if a slowdown is promised and no solo times are given.
    """
    seconds = solo(np.array([item.prompt_tokens for item in items], dtype=np.int64)) if solo else None
    return [
        item if slo is None else replace(item, promise=_limits(slo, item, index, seconds))
        for index, item in enumerate(items)
        for slo in [slos.get(item.slo_class or "")]
    ]


def _limits(slo: Slo, item: Item, index: int, seconds: Floats | None) -> Promise:
    alone = None if seconds is None else seconds[index : index + 1]
    return Promise(float(np.ravel(slo.ttft(alone, item.slo_class or ""))[0]), slo.tbt_seconds)


def solo_of(text: str) -> Solo:
    """Read ``--solo``: the name of a hardware profile, or a CSV of prompt_tokens and seconds.

    Between the rows of a table times are interpolated, outside of it the nearest two rows go on.
    """
    # Compiled code, which a bench without solo times does not have to wait for.
    from slidingserve import hardware

    if text not in hardware.names() and (Path(text).suffix.lower() == ".csv" or Path(text).exists()):
        return _table(Path(text))
    try:
        profile = hardware.get(text)
    except ValueError as error:
        raise WorkloadError(f"--solo {text!r}: {error}; or name a .csv of prompt_tokens, seconds") from error
    return lambda lengths: hardware.solo_seconds(profile, lengths)


def _table(path: Path) -> Solo:
    pairs = []
    for row in records(path):
        try:
            if isinstance(row, Bad):
                raise ValueError(row.reason)
            tokens, seconds = (float(row.values[name]) for name in ("prompt_tokens", "seconds"))
        except (ValueError, KeyError, TypeError) as error:
            raise WorkloadError(f"{path}, {row.place}: write prompt_tokens and seconds ({error})") from error
        if not (0 <= tokens < float("inf") and 0 < seconds < float("inf")):
            raise WorkloadError(f"{path}, {row.place}: {tokens:g} tokens, {seconds:g} s: must be above 0")
        pairs.append((tokens, seconds))
    known = np.array(sorted(dict(pairs).items()))
    if len(known) < 2:
        raise WorkloadError(f"{path}: holds {len(known)} lengths; two or more are needed to go between them")
    return lambda lengths: _between(known, lengths)


def _between(known: Floats, lengths: Ints) -> Floats:
    """Piecewise linear through ``known`` (rows of tokens, seconds), never below its smallest time."""
    tokens, seconds = known[:, 0], known[:, 1]
    right = np.clip(np.searchsorted(tokens, lengths), 1, len(tokens) - 1)
    slope = (seconds[right] - seconds[right - 1]) / (tokens[right] - tokens[right - 1])
    line = seconds[right - 1] + slope * (lengths - tokens[right - 1])
    return np.asarray(np.maximum(line, seconds.min()), dtype=np.float64)
