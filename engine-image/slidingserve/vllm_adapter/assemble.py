"""The compiled part of looking and arranging: columns from numbers, and the order in which requests stand.

`observe` reads the numbers from vLLM's requests, `step` puts the order into vLLM's queues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.batch import DECODE, PREFILL, WAITING
from slidingserve.core.columns import Bools, Bytes, Columns, Floats, Ints
from slidingserve.core.compiled import compiled


class Held(NamedTuple):
    """What requests are held to and, while they wait, how far they are: columns by row of `held.Table`."""

    arrival: Floats
    """a of equation 1."""
    ttft: Floats
    """L_ttft."""
    tbt: Floats
    """L_tbt."""
    safeguard: Bools
    """g of equation 12."""
    relegated: Bools
    """What a plan relegated: sticky for the life of the request, preempted or not."""
    total: Ints
    """Of waiting requests: prompt tokens, and after a preemption output too."""
    computed: Ints
    """Of waiting requests: tokens in the KV cache."""
    outputs: Ints
    """Of waiting requests: tokens delivered, k of equation 1."""
    prompt: Ints
    """Prompt tokens."""
    longest: Ints
    """The most output tokens."""


class Moment(NamedTuple):
    """The fields of `Columns` that are no arrays."""

    now: float
    max_tokens: int
    max_admissions: int
    free_kv_tokens: int
    throughput: float


class Assembled(NamedTuple):
    """`Columns`, and where they came from."""

    columns: Columns
    table_rows: Ints
    """Rows of the table, by row of the columns."""
    kept: Ints
    """Which of the requests that hold KV blocks are in it."""
    running: int
    """How many of these run."""
    lost: Ints
    """Running prefills that are relegated or past their deadline."""


@compiled
def _columns(
    phase: Bytes, left: Ints, cached: Ints, delivered: Ints, rows: Ints, held: Held, moment: Moment
) -> Columns:
    arrival, ttft, tbt = held.arrival[rows], held.ttft[rows], held.tbt[rows]
    return Columns(
        now=moment.now,
        phase=phase,
        arrival=arrival,
        remaining=left,
        cached=cached,
        slack=arrival + ttft + delivered * tbt - moment.now,
        tbt_limit=tbt,
        ttft_limit=ttft,
        safeguard=held.safeguard[rows],
        relegated=held.relegated[rows],
        max_tokens=moment.max_tokens,
        max_admissions=moment.max_admissions,
        free_kv_tokens=moment.free_kv_tokens,
        throughput=moment.throughput,
    )


@compiled
def assemble(facts: Ints, begun: Ints, running: int, waiting: Ints, held: Held, moment: Moment) -> Assembled:
    """The state of an engine from numbers.

    `facts`: computed tokens, output tokens and output placeholders of the requests that hold KV blocks,
    shape (m, 3), the first `running` of them in `scheduler.running`; `begun`: their table rows. `waiting`:
    table rows of those that wait.
    """
    most = len(facts) + len(waiting)
    kept = np.empty(len(facts), np.int64)
    rows = np.empty(most, np.int64)
    left = np.empty(most, np.int64)
    cached = np.empty(most, np.int64)
    delivered = np.empty(most, np.int64)
    phase = np.empty(most, np.int8)
    n = kept_running = 0
    for i in range(len(facts)):
        row = begun[i]
        done, output, placeholders = facts[i]
        prompt = held.prompt[row]
        # As vLLM: its last token is in flight, so it takes no further step.
        if placeholders > 0 and done + 2 - placeholders >= prompt + held.longest[row]:
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
        left[n] = max(held.total[row] - held.computed[row], 1)
        cached[n] = held.computed[row]
        delivered[n] = held.outputs[row]
        phase[n] = WAITING
        n += 1
    at = rows[:n]
    columns = _columns(phase[:n], left[:n], cached[:n], delivered[:n], at, held, moment)
    late = columns.relegated | (columns.slack <= 0)
    lost = np.flatnonzero((columns.phase == PREFILL)[:kept_running] & late[:kept_running])
    return Assembled(columns, at, kept[:started], kept_running, lost)


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
