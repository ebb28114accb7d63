"""The BatchForwarder (sections 3.4 and 4): what a batch of a given budget holds and takes, and the way back.

Forward, Pred and TimeToBudget of the paper's algorithms. Prefix sums over the sorted queue make each question
about a budget one binary search, so a whole TimeToBudget costs O(log B log n) on plain floats.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from slidingserve.core.snapshot import Ints
from slidingserve.predictor.features import Features
from slidingserve.predictor.model import Predictor


class BatchForwarder:
    """Batches of `decodes` decodes plus the head of a prefill queue, filled in order as vLLM fills them.

    A budget counts all tokens of a batch, one for each decode included, as in the paper; it never means less
    than the decodes and never more than decodes and queue hold.
    """

    def __init__(self, predictor: Predictor, decode_cached: Ints, remaining: Ints, cached: Ints) -> None:
        """`decode_cached`: by decode. `remaining`, `cached`: by queued prefill, in service order."""
        self._predictor = predictor
        self.decodes = len(decode_cached)
        self._context = float(decode_cached.sum())
        self._left: list[int] = remaining.tolist()
        self._cached: list[int] = cached.tolist()
        # Entry j sums over the first j requests of the queue, each prefilled to its end.
        self._tokens = _prefix(remaining)
        self._attention = _prefix(remaining * (cached + remaining))
        self._squares = _prefix(remaining * remaining)
        self._contexts = _prefix(cached)
        self._largest = [0, *np.maximum.accumulate(remaining).tolist()] if len(remaining) else [0]
        self._decode_only = predictor.predict(self.features(self.decodes))

    @property
    def largest_budget(self) -> int:
        """Decodes and the whole queue."""
        return self.decodes + self._tokens[-1]

    def _prefill_tokens(self, budget: int) -> int:
        return min(max(budget - self.decodes, 0), self._tokens[-1])

    def features(self, budget: int) -> Features:
        """Table 1 for the batch of that budget."""
        tokens = self._prefill_tokens(budget)
        whole = bisect_right(self._tokens, tokens) - 1
        part = tokens - self._tokens[whole]
        attention, squares = self._attention[whole], self._squares[whole]
        cached, largest = self._contexts[whole], self._largest[whole]
        if part:
            before = self._cached[whole]
            attention += part * (before + part)
            squares += part * part
            cached += before
            largest = max(largest, part)
        return Features(
            attention, squares, cached + self._context, self.decodes, self._context, tokens, largest
        )

    def pred(self, budget: int) -> float:
        """Seconds for the batch of that budget; never falls as the budget grows.

        The experts of two scenes may disagree where they meet: a batch with a prefill is never held to be
        quicker than its decodes alone.
        """
        if budget <= self.decodes:
            return self._decode_only
        return max(self._predictor.predict(self.features(budget)), self._decode_only)

    def forward(self, budget: int) -> tuple[float, list[int]]:
        """Seconds, and the prefill tokens of the requests from the head of the queue on."""
        tokens = self._prefill_tokens(budget)
        whole = bisect_right(self._tokens, tokens) - 1
        part = tokens - self._tokens[whole]
        return self.pred(budget), self._left[:whole] + ([part] if part else [])

    def time_to_budget(self, seconds: float, limit: int) -> int:
        """The largest budget of at most `limit` tokens with a `pred` within `seconds`: its inverse.

        At least the decodes, which are reserved whether they fit or not; never falls as `seconds` grows.
        """
        low, high = self.decodes, min(limit, self.largest_budget)
        while low < high:
            middle = (low + high + 1) // 2
            if self.pred(middle) <= seconds:
                low = middle
            else:
                high = middle - 1
        return low


def _prefix(values: Ints) -> list[int]:
    return [0, *np.cumsum(values).tolist()]
