"""What the engine has room for: which of the sorted requests may be in this batch, and how many tokens.

vLLM's own allocation has the last word (blocks, prefix hits); these are hints that keep a plan from asking
for what would be refused, and from admitting prompts that would only preempt each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.snapshot import Ints, Phase, Snapshot


class Room(NamedTuple):
    """What one batch may hold."""

    decodes: Ints
    """Rows that compute one token each; all decodes unless there are more than the batch has tokens."""
    prefills: Ints
    """Rows that may prefill, in service order."""
    prefill_tokens: int
    """The most tokens that they may prefill together."""


def room(snapshot: Snapshot, order: Ints, max_chunk: int | None) -> Room:
    """Apply the hints `max_tokens`, `max_admissions` and `free_kv_tokens` to the sorted requests.

    Decodes are reserved first; if there are more than the batch holds, those due first. A prefill may use
    what they leave. A waiting request is admitted only if its whole prefill fits beside what the running
    prefills still need; the first that does not fit closes the door for those behind it, so that a long
    prompt is not passed forever.

    The KV hint is ignored in one case: when obeying it would leave the engine with nothing to do. Then the
    first running prefill (else the first waiting one) gets its turn, and vLLM frees blocks by preemption or
    refuses.
    """
    decodes = np.flatnonzero(snapshot.is_decode)
    if len(decodes) > snapshot.max_tokens:
        due = np.argsort(snapshot.deadline[decodes], kind="stable")
        decodes = np.sort(decodes[due[: snapshot.max_tokens]])
    left = snapshot.remaining[order]
    waiting = snapshot.phase[order] == Phase.WAITING
    kv_room = max(snapshot.free_kv_tokens - len(decodes), 0)
    promised = left[~waiting].sum()
    fits = np.cumsum(np.where(waiting, left, 0)) + promised <= kv_room
    may_start = np.cumsum(waiting) <= snapshot.max_admissions
    prefills = order[~waiting | (fits & may_start)]
    budget = snapshot.max_tokens - len(decodes)
    if max_chunk is not None:
        budget = min(budget, max_chunk)
    if not len(decodes) and (kv_room == 0 or not len(prefills)):
        started = order[~waiting]
        prefills = started[:1] if len(started) else order[: min(snapshot.max_admissions, 1)]
    if len(decodes) or kv_room:
        budget = min(budget, kv_room)
    tokens = min(budget, int(snapshot.remaining[prefills].sum()))
    return Room(decodes, prefills, tokens)
