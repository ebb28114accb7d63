"""Search for goodput on a fixed grid of rates, so that every seed, fit and policy is judged at the same.

The rates of a grid are (1 + tolerance)^k requests a second. Where a search starts changes how long it takes,
and its result only if misses are not monotone in the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LOWEST, HIGHEST = 0.02, 100.0
"""No search goes beyond these rates, requests a second."""
_STRIDE = 0.15
"""First step away from the start, relative."""


def rate(step: int, tolerance: float) -> float:
    """Requests a second of a grid point."""
    return float((1 + tolerance) ** step)


def nearest(qps: float, tolerance: float) -> int:
    """The grid point at or below a rate."""
    return math.floor(math.log(qps) / math.log1p(tolerance) + 1e-9)


def highest(holds: Callable[[int], bool], start: float | None, tolerance: float) -> int | None:
    """The highest grid point at which `holds`, by growing strides from `start`, then by halves; or None."""
    low, high = bracket(holds, nearest(start or 1.0, tolerance), tolerance)
    if low is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def bracket(holds: Callable[[int], bool], step: int, tolerance: float) -> tuple[int | None, int]:
    """A point that holds (None: not even the lowest), and a higher one that does not or is too high."""
    bottom, top = nearest(LOWEST, tolerance) + 1, nearest(HIGHEST, tolerance)
    step = min(max(step, bottom), top)
    stride = max(1, nearest(1 + _STRIDE, tolerance))
    if holds(step):
        while step < top:
            above = min(step + stride, top)
            if not holds(above):
                return step, above
            step, stride = above, 2 * stride
        return top, top + 1
    while step > bottom:
        below = max(step - stride, bottom)
        if holds(below):
            return below, step
        step, stride = below, 2 * stride
    return None, bottom
