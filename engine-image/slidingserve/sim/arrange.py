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
    line, queue, rank, cap = sim.scratch.line, sim.scratch.queue, sim.scratch.rank, sim.scratch.cap
    phase, tokens, order, relegated = columns.phase, decision.tokens, decision.order, decision.relegated
    n = len(phase)
    n_line = n_queue = 0
    # Requests whose last token is being computed stand behind all rows, the first one last.
    total = sim.counts[state.N_RUNNING] + sim.counts[state.N_WAITING]
    for row in range(total - 1, n - 1, -1):
        line[n_line] = row
        cap[row] = 0
        n_line += 1
    for wanted in (_SERVED, _HELD, _RELEGATED):
        for row in range(running):
            if phase[row] == DECODE and _group(tokens[row], relegated[row]) == wanted:
                line[n_line] = row
                n_line += 1
        for row in order:
            if row < running and _group(tokens[row], relegated[row]) == wanted:
                line[n_line] = row
                n_line += 1
    for place in range(len(order)):
        row = order[place]
        rank[row] = place
        if row >= running and tokens[row] > 0:
            queue[n_queue] = row
            n_queue += 1
    return n_line, n_queue


@compiled
def _group(tokens: int, relegated: bool) -> int:
    if tokens > 0:
        return _SERVED
    return _RELEGATED if relegated else _HELD


@compiled
def is_lost(relegated: bool, slack: float, flying: int) -> bool:
    """Whether a running prefill can keep its promise no more and could be preempted: it is in no batch."""
    return bool((relegated or slack <= 0) and flying == 0)


@compiled
def make_room(
    sim: State, columns: Columns, decision: Decision, running: int, n_line: int, n_queue: int, most: int
) -> int:  # fmt: skip
    """Preempt lost prefills, the last of the order first, as long as requests to admit that rank before them
    lack slots (of `most`) or blocks. Returns what is left of the line."""
    if n_queue == 0:
        return n_line
    scratch, flying, block = sim.scratch, sim.requests.flying, sim.pool.block
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
        if row >= running or columns.phase[row] != PREFILL:
            continue
        if not is_lost(columns.relegated[row], columns.slack[row], flying[scratch.active[row]]):
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
