"""What the engine has room for: which of the sorted requests may be in this batch, and how many tokens.

vLLM's own allocation has the last word (blocks, prefix hits); these are hints that keep a plan from asking
for what would be refused, and from admitting prompts that would only preempt each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.batch import DECODE, WAITING
from slidingserve.core.columns import Columns, Ints
from slidingserve.core.compiled import compiled
from slidingserve.core.ordering import sort_rows


class Room(NamedTuple):
    """What one batch may hold."""

    decodes: Ints
    """Rows that compute one token each; all decodes unless there are more than the batch has tokens."""
    prefills: Ints
    """Rows that may prefill, in service order."""
    prefill_tokens: int
    """The most tokens that they may prefill together."""


@compiled
def make_room(columns: Columns, order: Ints, total: int, max_chunk: int) -> Room:
    """Apply the hints `max_tokens`, `max_admissions` and `free_kv_tokens` to the sorted requests.

    Decodes are reserved first; if there are more than the batch holds, those due first. A prefill may use
    what they leave of `total` tokens, up to `max_chunk`. A waiting request is admitted only if its whole
    prefill fits beside what the running prefills still need; the first that does not fit closes the door for
    those behind it, so that a long prompt is not passed forever.

    The KV hint is ignored in one case: when obeying it would leave the engine with nothing to do. Then the
    first running prefill (else the first waiting one) gets its turn, and vLLM frees blocks by preemption or
    refuses.
    """
    decodes = reserve_decodes(columns)
    kv_room = max(columns.free_kv_tokens - len(decodes), 0)
    prefills = _admitted(columns, order, kv_room)
    budget = min(min(total, columns.max_tokens) - len(decodes), max_chunk)
    if len(decodes) == 0 and (kv_room == 0 or len(prefills) == 0):
        prefills = _first_turn(columns, order)
    if len(decodes) > 0 or kv_room > 0:
        budget = min(budget, kv_room)
    wanted = 0
    for row in prefills:
        wanted += columns.remaining[row]
    return Room(decodes, prefills, max(min(budget, wanted), 0))


@compiled
def reserve_decodes(columns: Columns) -> Ints:
    """Rows of the decodes in this batch, ascending: all, or as many as it holds, those due first."""
    n = len(columns.phase)
    rows = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if columns.phase[i] == DECODE:
            rows[count] = i
            count += 1
    if count <= columns.max_tokens:
        return rows[:count]
    chosen = np.ones(n, np.int64)
    due = sort_rows(rows[:count], np.zeros(n, np.int64), columns.slack, columns.arrival)
    for row in due[: columns.max_tokens]:
        chosen[row] = 0
    count = 0
    for i in range(n):
        if chosen[i] == 0:
            rows[count] = i
            count += 1
    return rows[: columns.max_tokens]


@compiled
def _admitted(columns: Columns, order: Ints, kv_room: int) -> Ints:
    """Running prefills, and the waiting ones that may start, in service order."""
    promised = 0
    for row in order:
        if columns.phase[row] != WAITING:
            promised += columns.remaining[row]
    rows = np.empty(len(order), np.int64)
    count = admissions = 0
    for row in order:
        if columns.phase[row] == WAITING:
            admissions += 1
            promised += columns.remaining[row]
            if admissions > columns.max_admissions or promised > kv_room:
                continue  # and so is every waiting request behind it: both sums only grow
        rows[count] = row
        count += 1
    return rows[:count]


@compiled
def _first_turn(columns: Columns, order: Ints) -> Ints:
    """The first running prefill, else the first waiting one if it may be admitted."""
    for i in range(len(order)):
        if columns.phase[order[i]] != WAITING:
            return order[i : i + 1]
    return order[: min(columns.max_admissions, 1)]
