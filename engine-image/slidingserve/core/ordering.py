"""A stable sort of rows by (level, key, arrival, row), in compiled code.

Merge sort, so that a queue of thousands under overload costs n log n comparisons. The order is total, hence
the same on every machine.
"""

from __future__ import annotations

import numpy as np

from slidingserve.core.columns import Floats, Ints
from slidingserve.core.compiled import compiled

_RUN = 8
"""Runs of so many rows are sorted by insertion before they are merged."""


@compiled
def _before(a: int, b: int, level: Ints, key: Floats, arrival: Floats) -> bool:
    """Whether row a stands strictly before row b."""
    if level[a] != level[b]:
        return bool(level[a] < level[b])
    if key[a] != key[b]:
        return bool(key[a] < key[b])
    if arrival[a] != arrival[b]:
        return bool(arrival[a] < arrival[b])
    return a < b


@compiled
def sort_rows(rows: Ints, level: Ints, key: Floats, arrival: Floats) -> Ints:
    """`rows`, sorted; it may be overwritten. The other columns are by row number, shape n."""
    count = len(rows)
    for start in range(0, count, _RUN):
        for i in range(start + 1, min(start + _RUN, count)):
            row, place = rows[i], i
            while place > start and _before(row, rows[place - 1], level, key, arrival):
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = row
    source, target = rows, np.empty(count if count > _RUN else 0, np.int64)
    width = _RUN
    while width < count:
        for start in range(0, count, 2 * width):
            _merge(
                source,
                target,
                start,
                min(start + width, count),
                min(start + 2 * width, count),
                level,
                key,
                arrival,
            )
        source, target = target, source
        width *= 2
    return source


@compiled
def _merge(
    source: Ints, target: Ints, start: int, middle: int, end: int, level: Ints, key: Floats, arrival: Floats
) -> None:
    """Merge two sorted runs of `source`, which meet at `middle`, into `target`."""
    left, right = start, middle
    for place in range(start, end):
        if right >= end or (left < middle and not _before(source[right], source[left], level, key, arrival)):
            target[place] = source[left]
            left += 1
        else:
            target[place] = source[right]
            right += 1
