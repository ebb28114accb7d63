"""The compiled part of looking and arranging: columns from numbers, and the order in which requests stand.

`observe` reads the numbers from vLLM's requests, `step` puts the order into vLLM's queues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.batch import DECODE, PREFILL, WAITING
from slidingserve.core.columns import Bools, Bytes, Floats, Ints
from slidingserve.core.compiled import compiled


class Assembled(NamedTuple):
    """The arrays of `Columns` for n requests, and where they came from."""

    kept: Ints
    """Which of the requests that hold KV blocks are in it."""
    running: int
    """How many of these run."""
    table_rows: Ints
    phase: Bytes
    arrival: Floats
    remaining: Ints
    cached: Ints
    slack: Floats
    tbt_limit: Floats
    ttft_limit: Floats
    safeguard: Bools
    relegated: Bools
    lost: Ints
    """Running prefills that are relegated or past their deadline."""


@compiled
def assemble(
    facts: Ints,
    held: Ints,
    running: int,
    waiting: Ints,
    now: float,
    arrival: Floats,
    ttft: Floats,
    tbt: Floats,
    safeguard: Bools,
    relegated: Bools,
    total: Ints,
    computed: Ints,
    outputs: Ints,
    prompts: Ints,
    longest: Ints,
) -> Assembled:
    """The state of an engine from numbers.

    `facts`: computed tokens, output tokens and output placeholders of the requests that hold KV blocks,
    shape (m, 3), the first `running` of them in `scheduler.running`; `held`: their table rows. `waiting`:
    table rows of those that wait. The rest: columns of the table.
    """
    most = len(facts) + len(waiting)
    kept = np.empty(len(facts), np.int64)
    rows = np.empty(most, np.int64)
    left = np.empty(most, np.int64)
    cached = np.empty(most, np.int64)
    delivered = np.empty(most, np.int64)
    phase = np.empty(most, np.int8)
    lost = np.empty(running, np.int64)
    n = kept_running = count = 0
    for i in range(len(facts)):
        row = held[i]
        done, output, placeholders = facts[i]
        prompt = prompts[row]
        # As vLLM: its last token is in flight, so it takes no further step.
        if placeholders > 0 and done + 2 - placeholders >= prompt + longest[row]:
            continue
        kept[n] = i
        rows[n] = row
        # Work in flight counts as done: vLLM advances the computed tokens when it schedules, and output that
        # is still being computed stands in the placeholders.
        left[n] = max(prompt + output + placeholders - done, 1)
        cached[n] = done
        delivered[n] = output + placeholders
        phase[n] = DECODE if delivered[n] > 0 and left[n] == 1 else PREFILL
        n += 1
        if i < running:
            kept_running = n
    started = n
    for row in waiting:
        rows[n] = row
        left[n] = max(total[row] - computed[row], 1)
        cached[n] = computed[row]
        delivered[n] = outputs[row]
        phase[n] = WAITING
        n += 1
    at = rows[:n]
    began = arrival[at]
    first = ttft[at]
    each = tbt[at]
    slack = began + first + delivered[:n] * each - now
    gone = relegated[at]
    for i in range(kept_running):
        if phase[i] == PREFILL and (gone[i] or slack[i] <= 0):
            lost[count] = i
            count += 1
    return Assembled(
        kept[:started],
        kept_running,
        at,
        phase[:n],
        began,
        left[:n],
        cached[:n],
        slack,
        each,
        first,
        safeguard[at],
        gone,
        lost[:count],
    )


class Arranged(NamedTuple):
    """Who stands where."""

    running: Ints
    """Rows of the running requests: who is served first stands first, who is preempted first stands last."""
    served: Ints
    """Rows that compute something in this step."""
    admitted: Ints
    """Waiting rows that do, in the plan's order."""


@compiled
def arrange(
    phase: Bytes, tokens: Ints, order: Ints, relegated: Bools, running: int, started: int
) -> Arranged:
    """Decodes, then prefills in the plan's order, then decodes that are skipped, then prefills that are held
    back, relegated ones last: vLLM takes its victim from the end."""
    n = len(phase)
    rank = np.zeros(n, np.int64)
    admitted = np.empty(len(order), np.int64)
    count = 0
    for place in range(len(order)):
        row = order[place]
        rank[row] = place
        if row >= started and tokens[row] > 0:
            admitted[count] = row
            count += 1
    key = np.empty(running, np.int64)
    for row in range(running):
        decode = phase[row] == DECODE
        if tokens[row] > 0:
            group = 0 if decode else 1
        elif relegated[row]:
            group = 4
        else:
            group = 2 if decode else 3
        key[row] = group * (n + 1) + (0 if decode else rank[row])
    return Arranged(np.argsort(key, kind="mergesort"), np.flatnonzero(tokens), admitted[:count])


SIGHT = 64
"""So many requests may leave a queue side by side without those behind them counting as new."""


@compiled
def match(old_ids: Ints, old_rows: Ints, ids: Ints) -> Ints:
    """The rows of `ids` in a queue that was `old_ids` before; -1 for those that are new, and for some that
    are not if much has changed."""
    rows = np.full(len(ids), -1, np.int64)
    at = 0
    for i in range(len(ids)):
        for j in range(at, min(at + SIGHT, len(old_ids))):
            if old_ids[j] == ids[i]:
                rows[i] = old_rows[j]
                at = j + 1
                break
    return rows
