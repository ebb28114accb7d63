"""Who stands where in a planned step, and who must make room: `vllm_adapter.assemble` and `.step` once more.

Decodes are served first and preempted last; prefills that cannot keep their promise any more give their slots
and blocks to requests that rank before them.
"""

from __future__ import annotations

from slidingserve.core.batch import DECODE, PREFILL
from slidingserve.core.columns import Columns, Decision
from slidingserve.core.compiled import compiled
from slidingserve.sim import state
from slidingserve.sim.allocate import preempt
from slidingserve.sim.state import State

_SERVED, _HELD, _RELEGATED = 0, 1, 2


@compiled
def arrange(sim: State, columns: Columns, decision: Decision, running: int) -> tuple[int, int]:
    """Fill `line` and `queue`; returns their lengths.

    In line: requests that end by themselves, then who is served, who is held back, and who is held back and
    relegated; each time decodes first, then prefills in the plan's order.
    """
    scratch, n = sim.scratch, len(columns.phase)
    n_line = n_queue = 0
    # Requests whose last token is being computed stand behind all rows, the first one last.
    total = sim.counts[state.N_RUNNING] + sim.counts[state.N_WAITING]
    for place in range(total - n):
        scratch.line[n_line] = total - 1 - place
        scratch.cap[total - 1 - place] = 0
        n_line += 1
    for place in range(len(decision.order)):
        scratch.rank[decision.order[place]] = place
    for group in (_SERVED, _HELD, _RELEGATED):
        for row in range(running):
            if columns.phase[row] == DECODE and _group(decision, row) == group:
                n_line = _put(sim, n_line, row)
        for row in decision.order:
            if row < running and _group(decision, row) == group:
                n_line = _put(sim, n_line, row)
    for row in decision.order:
        if row >= running and decision.tokens[row] > 0:
            scratch.queue[n_queue] = row
            n_queue += 1
    return n_line, n_queue


@compiled
def _group(decision: Decision, row: int) -> int:
    if decision.tokens[row] > 0:
        return _SERVED
    return _RELEGATED if decision.relegated[row] else _HELD


@compiled
def _put(sim: State, n_line: int, row: int) -> int:
    sim.scratch.line[n_line] = row
    return n_line + 1


@compiled
def is_lost(sim: State, row: int) -> bool:
    """Whether a running prefill can keep its promise no more and could be preempted: it is in no batch."""
    scratch = sim.scratch
    late = scratch.relegated[row] or scratch.slack[row] <= 0
    return bool(late and sim.requests.flying[scratch.active[row]] == 0)


@compiled
def make_room(
    sim: State, columns: Columns, decision: Decision, running: int, n_line: int, n_queue: int, most: int
) -> int:  # fmt: skip
    """Preempt lost prefills, the last of the order first, as long as requests to admit that rank before them
    lack slots (of `most`) or blocks. Returns what is left of the line."""
    if n_queue == 0:
        return n_line
    scratch, block = sim.scratch, sim.pool.block
    # A block more for each, as the adapter reckons.
    blocks = 0
    for row in range(running):
        if decision.tokens[row] > 0:
            blocks += decision.tokens[row] // block + 1
    for place in range(n_queue):
        blocks += columns.remaining[scratch.queue[place]] // block + 1
    last = scratch.rank[scratch.queue[n_queue - 1]]
    for place in range(len(decision.order) - 1, last, -1):
        row = decision.order[place]
        if row >= running or columns.phase[row] != PREFILL or not is_lost(sim, row):
            continue
        slots = most - sim.counts[state.N_RUNNING] + sim.counts[state.N_GONE]
        if slots >= n_queue and sim.pool.free[0] >= blocks:
            break
        if decision.tokens[row] > 0:
            blocks -= decision.tokens[row] // block + 1
        preempt(sim, scratch.active[row])
        kept = 0
        for other in range(n_line):
            if scratch.line[other] != row:
                scratch.line[kept] = scratch.line[other]
                kept += 1
        n_line = kept
    return n_line
