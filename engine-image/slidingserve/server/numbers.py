"""Numbers that come from outside: the one place where a header's or a body's limit becomes a float.

The middleware and the wrapper of vLLM's `process_inputs` read through here (see `promise`), so that what lies
behind them, the planner's columns, the metrics and JSON, only ever meets numbers that it can hold.
"""

from __future__ import annotations

import math
import re

from slidingserve.config_errors import cut

SHORTEST_MILLISECONDS = 0.001
"""A limit of 0 is served as this: no token comes so soon, so the request is late from the start."""
LONGEST_MILLISECONDS = 86_400_000.0
"""A day; whatever is further is served as this."""
EXPECTED = "a number of milliseconds in decimal digits, for example 300 or 12.5"

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def milliseconds(value: object) -> float:
    """What was asked for, 0 and above, infinite where it is beyond a float. Raises ValueError.

    A text is digits with at most one point between them: no sign, exponent, unit, blank or underscore, and no
    digits of other scripts, all of which `float` would take. Of JSON's numbers none is refused but a negative
    one.
    """
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:  # false for NaN
        try:
            number = float(value)
        except OverflowError:  # an int of 400 digits
            return math.inf
        if not isinstance(value, float) or math.isfinite(number):
            return number
    raise ValueError(f"{cut(repr(value))} is not {EXPECTED}")


def clamped(asked: float) -> float:
    """The limit that is served for one that was asked for, both in milliseconds."""
    return min(max(asked, SHORTEST_MILLISECONDS), LONGEST_MILLISECONDS)
