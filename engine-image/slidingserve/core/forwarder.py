"""The BatchForwarder (sections 3.4 and 4): what a batch of a given budget holds and takes, and the way back.

Forward, Pred and TimeToBudget of the paper's algorithms. Prefix sums over the sorted queue make each question
about a budget one binary search, so a whole TimeToBudget costs O(log B log n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.batch import predict
from slidingserve.core.columns import Columns, Floats, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.predictor.features import Features


class Forwarder(NamedTuple):
    """Batches of `decodes` decodes plus the head of a queue of m prefills, filled in order as vLLM does.

    A budget counts all tokens of a batch, one for each decode included, as in the paper; it never means less
    than the decodes and never more than decodes and queue hold.
    """

    weights: Weights
    decodes: int
    """|D|."""
    context: float
    """Cached tokens of all decodes."""
    left: Ints
    """r of each queued prefill, in service order, shape m."""
    cached: Ints
    """u of each."""
    tokens: Ints
    """Entry j of this and the next four sums over the first j of the queue, each done to its end; m + 1."""
    attention: Floats
    squares: Floats
    contexts: Floats
    largest: Ints
    """The largest r of the first j."""
    decode_only: float
    """Seconds of the decodes alone."""


@compiled
def make_forwarder(weights: Weights, columns: Columns, decodes: Ints, prefills: Ints) -> Forwarder:
    """`decodes`, `prefills`: rows of the columns, the latter in service order."""
    m = len(prefills)
    left, cached = np.empty(m, np.int64), np.empty(m, np.int64)
    tokens, largest = np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64)
    attention, squares, contexts = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1)
    for j in range(m):
        r, u = columns.remaining[prefills[j]], columns.cached[prefills[j]]
        left[j], cached[j] = r, u
        tokens[j + 1] = tokens[j] + r
        attention[j + 1] = attention[j] + r * (u + r)
        squares[j + 1] = squares[j] + r * r
        contexts[j + 1] = contexts[j] + u
        largest[j + 1] = max(largest[j], r)
    context = 0.0
    for row in decodes:
        context += columns.cached[row]
    decode_only = predict(weights, _decode_batch(len(decodes), context))
    return Forwarder(
        weights,
        len(decodes),
        context,
        left,
        cached,
        tokens,
        attention,
        squares,
        contexts,
        largest,
        decode_only,
    )


@compiled
def _decode_batch(decodes: int, context: float) -> Features:
    return Features(0.0, 0.0, context, float(decodes), context, 0.0, 0.0)


@compiled
def largest_budget(forwarder: Forwarder) -> int:
    """Decodes and the whole queue."""
    return int(forwarder.decodes + forwarder.tokens[-1])


@compiled
def _prefill_tokens(forwarder: Forwarder, budget: int) -> int:
    return int(min(max(budget - forwarder.decodes, 0), forwarder.tokens[-1]))


@compiled
def _whole(tokens: Ints, count: int) -> int:
    """How many requests from the head of the queue end within `count` prefill tokens."""
    low, high = 0, len(tokens) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if tokens[middle] <= count:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def batch_at(forwarder: Forwarder, budget: int) -> Features:
    """Table 1 for the batch of that budget."""
    count = _prefill_tokens(forwarder, budget)
    whole = _whole(forwarder.tokens, count)
    part = count - forwarder.tokens[whole]
    attention, squares = forwarder.attention[whole], forwarder.squares[whole]
    cached, largest = forwarder.contexts[whole], forwarder.largest[whole]
    if part > 0:
        before = forwarder.cached[whole]
        attention += part * (before + part)
        squares += part * part
        cached += before
        largest = max(largest, part)
    return Features(
        attention,
        squares,
        cached + forwarder.context,
        float(forwarder.decodes),
        forwarder.context,
        float(count),
        float(largest),
    )


@compiled
def pred(forwarder: Forwarder, budget: int) -> float:
    """Pred: seconds for the batch of that budget; with weights of at least 0 it never falls as it grows.

    The experts of two scenes may disagree where they meet: a batch with a prefill is never held to be
    quicker than its decodes alone.
    """
    if budget <= forwarder.decodes:
        return forwarder.decode_only
    return max(predict(forwarder.weights, batch_at(forwarder, budget)), forwarder.decode_only)


@compiled
def time_to_budget(forwarder: Forwarder, seconds: float, limit: int) -> int:
    """TimeToBudget: the largest budget of at most `limit` tokens with a Pred within `seconds`: its inverse.

    At least the decodes, which are reserved whether they fit or not; never falls as `seconds` grows.
    """
    low, high = forwarder.decodes, min(limit, largest_budget(forwarder))
    while low < high:
        middle = (low + high + 1) // 2
        if pred(forwarder, middle) <= seconds:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def forward(forwarder: Forwarder, decodes: Ints, prefills: Ints, budget: int, n: int) -> Ints:
    """A of Forward: tokens by row of the n columns. `decodes`, `prefills`: the rows it was made of."""
    tokens = np.zeros(n, np.int64)
    for row in decodes:
        tokens[row] = 1
    left = _prefill_tokens(forwarder, budget)
    for j in range(len(prefills)):
        if left <= 0:
            break
        tokens[prefills[j]] = min(forwarder.left[j], left)
        left -= tokens[prefills[j]]
    return tokens


@compiled
def pred_after(forwarder: Forwarder, first: int, budget: int) -> float:
    """Seconds of a second batch of `budget` tokens, after a first one of budget `first` was run.

    The queue stands where the first batch left it: requests that ended their prefill in it decode now, one
    token each, and every context has grown. Never fewer decodes, however small the budget.
    """
    begin = _prefill_tokens(forwarder, first)
    done = _whole(forwarder.tokens, begin)
    decodes = forwarder.decodes + done
    context = forwarder.context + forwarder.decodes + forwarder.contexts[done] + forwarder.tokens[done]
    decode_only = predict(forwarder.weights, _decode_batch(decodes, context))
    count = min(max(budget - decodes, 0), forwarder.tokens[-1] - begin)
    if count == 0:
        return decode_only
    batch = _middle_batch(forwarder, begin, begin + count, done, decodes, context)
    return max(predict(forwarder.weights, batch), decode_only)


@compiled
def _middle_batch(
    forwarder: Forwarder, begin: int, end: int, done: int, decodes: int, context: float
) -> Features:
    """Table 1 for prefill tokens `begin` to `end` of the queue, whose first `done` requests have ended."""
    attention = squares = cached = 0.0
    largest, place, at = 0, done, begin
    while at < end:
        before = at - forwarder.tokens[place]
        part = min(forwarder.left[place] - before, end - at)
        before += forwarder.cached[place]
        attention += part * (before + part)
        squares += part * part
        cached += before
        largest = max(largest, part)
        at += part
        place += 1
    return Features(
        attention, squares, cached + context, float(decodes), context, float(end - begin), float(largest)
    )


@compiled
def pred_unfloored(forwarder: Forwarder, budget: int) -> float:
    """Pred where a budget below |D| means only so many decodes, of average context: the literal reading."""
    if budget >= forwarder.decodes:
        return pred(forwarder, budget)
    some = max(budget, 0)
    return predict(forwarder.weights, _decode_batch(some, forwarder.context * some / forwarder.decodes))
