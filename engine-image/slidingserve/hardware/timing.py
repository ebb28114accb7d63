"""How long one batch takes, from tables: the one function that the simulator and the timed executor call.

A batch is dense layers (by the count of tokens) + attention (by what attends to what) + the output head (by
the count of requests) + all-reduce + the host. Everything that a table holds is in seconds and covers the
whole model, all layers.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from slidingserve.core.columns import Floats, Ints
from slidingserve.core.compiled import compiled


class Timing(NamedTuple):
    """The tables of one profile, as compiled code reads them."""

    dense: Floats
    """Shape N + 1: seconds of all layers without attention for 0..N tokens in the batch, stair by stair."""
    dense_slope: float
    """Seconds a token beyond N."""
    head: Floats
    """Shape S + 1: seconds of output head and sampler for 0..S requests in the batch."""
    head_slope: float
    """Seconds a request beyond S."""
    chunks: Floats
    """Axis: tokens of the (one) prefill. 0 first: no prefill."""
    contexts: Floats
    """Axis: cached tokens of that prefill."""
    decodes: Floats
    """Axis: decodes in the batch. 0 first: none."""
    decode_contexts: Floats
    """Axis: cached tokens of each decode."""
    attention: Floats
    """Shape chunks x contexts x decodes x decode_contexts: seconds of attention, all layers."""
    skew: Floats
    """Shape 2 x decodes: of the way from decodes at their mean context to all at the longest, how much uneven
    ones pay; row 0 in a batch of decodes alone, row 1 beside a prefill."""
    communication: float
    """Seconds of all all-reduces of a step without their bytes."""
    communication_slope: float
    """Seconds that the bytes of one token take in all all-reduces."""
    host: float
    """Seconds a step spends outside kernels: scheduling, input preparation, launch, output."""


@compiled
def batch_seconds(timing: Timing, prefill_tokens: Ints, prefill_cached: Ints, decode_cached: Ints) -> float:
    """Seconds of one batch without noise; 0 for an empty one.

    `prefill_tokens` and `prefill_cached`, one entry a prefill: tokens computed now and tokens in the cache.
    `decode_cached`, one entry a decode: tokens in the cache.
    """
    requests = len(decode_cached)
    tokens = float(requests)
    chunk = 0.0
    pairs = 0.0
    for i in range(len(prefill_tokens)):
        count = float(prefill_tokens[i])
        if count > 0.0:
            requests += 1
            chunk += count
            pairs += count * (prefill_cached[i] + 0.5 * count)
    tokens += chunk
    if requests == 0:
        return 0.0
    context = 0.0
    longest = 0.0
    for i in range(len(decode_cached)):
        context += decode_cached[i]
        longest = max(longest, float(decode_cached[i]))
    return (
        _by_count(timing.dense, timing.dense_slope, int(tokens))
        + _by_count(timing.head, timing.head_slope, requests)
        + attention_seconds(timing, chunk, pairs, float(len(decode_cached)), context, longest)
        + timing.communication
        + timing.communication_slope * tokens
        + timing.host
    )


@compiled
def attention_seconds(
    timing: Timing, chunk: float, pairs: float, decodes: float, context: float, longest: float
) -> float:
    """Attention of a batch whose prefills compute `chunk` tokens in `pairs` query-key pairs in all, and whose
    decodes attend to `context` tokens in all, one of them to `longest`.

    Several prefills count as the one prefill of as many tokens and pairs, which the tables know. Prompts that
    start together have fewer pairs than one prompt of their length: then as one shorter prompt of equal work.
    A prefill longer than the tables likewise as one with more context. Decodes count at their mean context,
    and where they are uneven at some of the way to the longest.
    """
    if decodes == 0.0:
        return _prefill(timing, chunk, pairs, 0.0, 0.0)
    mean = context / decodes
    even = _prefill(timing, chunk, pairs, decodes, mean)
    if longest <= mean:
        return even
    some, more = _cell(timing.decodes, decodes)
    paid = min(1.0, max(0.0, _between(timing.skew[1 if chunk > 0.0 else 0], some, more)))
    return even + paid * (_prefill(timing, chunk, pairs, decodes, longest) - even)


@compiled
def _prefill(timing: Timing, chunk: float, pairs: float, decodes: float, context: float) -> float:
    """The surface at any prefill, or none, and `decodes` decodes with `context` cached tokens each."""
    if chunk == 0.0:
        return _decodes(timing, 0, 0, decodes, context) if decodes > 0.0 else 0.0
    chunk = min(chunk, timing.chunks[-1])
    if 2.0 * pairs < chunk * chunk:
        chunk = sqrt(2.0 * pairs)
    cached = max(0.0, pairs / chunk - 0.5 * chunk)
    chunk = max(chunk, timing.chunks[1])
    low, share = _cell(timing.contexts, cached)
    row, part = _chunk_cell(timing.chunks, chunk, cached)
    below = _mixed(timing, row, low, share, decodes, context)
    return below + part * (_mixed(timing, row + 1, low, share, decodes, context) - below)


@compiled
def _mixed(timing: Timing, row: int, low: int, share: float, decodes: float, context: float) -> float:
    """The surface at one chunk of the axis, between two contexts of the prefill."""
    if decodes == 0.0:
        return _between(timing.attention[row, :, 0, 0], low, share)
    below = _decodes(timing, row, low, decodes, context)
    return below + share * (_decodes(timing, row, low + 1, decodes, context) - below)


@compiled
def _decodes(timing: Timing, row: int, low: int, decodes: float, context: float) -> float:
    """The surface at one prefill of the axes, between counts and contexts of the decodes."""
    some, more = _cell(timing.decodes, decodes)
    near, further = _cell(timing.decode_contexts, context)
    below = _between(timing.attention[row, low, some], near, further)
    return below + more * (_between(timing.attention[row, low, some + 1], near, further) - below)


@compiled
def _between(values: Floats, index: int, share: float) -> float:
    return values[index] + share * (values[index + 1] - values[index])  # type: ignore[no-any-return]


@compiled
def _cell(axis: Floats, value: float) -> tuple[int, float]:
    """Left edge of the cell of `value` and its share of the way to the right one; above 1 beyond the axis."""
    index = _left(axis, value)
    share = (value - axis[index]) / (axis[index + 1] - axis[index])
    return index, max(0.0, share)


@compiled
def _chunk_cell(axis: Floats, chunk: float, cached: float) -> tuple[int, float]:
    """As `_cell`, but between two chunk sizes the time follows the pairs, not the tokens."""
    index = _left(axis, chunk)
    low, high = axis[index], axis[index + 1]
    first = low * (cached + 0.5 * low)
    pairs = chunk * (cached + 0.5 * chunk)
    return index, (pairs - first) / (high * (cached + 0.5 * high) - first)


@compiled
def _left(axis: Floats, value: float) -> int:
    low, high = 0, len(axis) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if axis[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@compiled
def _by_count(table: Floats, slope: float, count: int) -> float:
    last = len(table) - 1
    if count <= last:
        return table[count]  # type: ignore[no-any-return]
    return table[last] + slope * (count - last)  # type: ignore[no-any-return]
