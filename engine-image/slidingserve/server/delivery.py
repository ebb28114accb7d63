"""How long a token is under way from the core's step to the client's stream: output processing,
detokenising, HTTP.

The API server measures it, the core plans with it: a token must leave the core so much before its deadline.
"""

from __future__ import annotations

from collections import deque

import numpy as np

WINDOW = 512
SHARE = 95
LONGEST_SECONDS = 0.25
"""A longer one is a stall of the front end, which no plan of the core can make up for."""


class Delivery:
    """The latest deliveries of one API server."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=WINDOW)

    def add(self, seconds: float) -> None:
        """A part of a stream left so many seconds after the core had made its tokens."""
        if 0 <= seconds <= LONGEST_SECONDS:
            self._seconds.append(seconds)

    def usual(self) -> float:
        """Seconds that 95 % of the latest deliveries kept within; 0 before the first."""
        latest = list(self._seconds)
        return float(np.percentile(latest, SHARE)) if latest else 0.0
