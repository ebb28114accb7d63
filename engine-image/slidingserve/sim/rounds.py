"""A round of the simulated engine: columns from the state, the policy's decision, the batch that becomes of
it.

It does what the adapter does in the real one: decodes first and preempted last, planned prefills in the
plan's order, admissions only as planned; a plan that would do nothing although there is work, or of which
nothing fits while nothing runs, leaves the step to vLLM's own order and is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.batch import DECODE, PREFILL, WAITING
from slidingserve.core.columns import STOCK, Columns, Decision, Weights
from slidingserve.core.compiled import compiled
from slidingserve.policies.dispatch import decide
from slidingserve.sim import state
from slidingserve.sim.allocate import allocate
from slidingserve.sim.state import State

_NO_CAP = 1 << 60


class Limits(NamedTuple):
    """What stays the same over a run."""

    policy: int
    max_tokens: int
    max_requests: int
    asynchronous: bool


@compiled
def plan_batch(
    sim: State, slot: int, now: float, alone: bool, limits: Limits, weights: Weights, settings: Any
) -> int:
    """Plan and allocate the next batch into `slot`; returns its tokens, 0 if nothing is to be done.

    `now`: the moment planned for, in asynchronous mode the predicted end of the batch in flight. `alone`:
    nothing is in flight.
    """
    rows = sim.counts[state.N_RUNNING] + sim.counts[state.N_WAITING]
    if rows == 0:
        return 0
    columns = gather(sim, now, limits)
    decision = decide(limits.policy, columns, weights, settings)
    sim.batches.sizes[slot, state.BRANCH] = decision.branch
    tokens = 0
    if decision.branch == STOCK:
        cap = settings.budget if settings.budget > 0 else limits.max_tokens
        return _stock(sim, slot, min(cap, limits.max_tokens), limits)
    if decision.tokens.sum() > 0:
        _keep_relegated(sim, decision)
        tokens = _planned(sim, slot, decision, columns, limits)
        if tokens or not alone:
            return tokens
        gather(sim, now, limits)  # what was preempted in vain has moved to the waiting ones
    sim.counts[state.PLAN_ERRORS] += 1
    sim.batches.sizes[slot, state.BRANCH] = STOCK
    return _stock(sim, slot, limits.max_tokens, limits)


@compiled
def gather(sim: State, now: float, limits: Limits) -> Columns:
    """The active requests as columns: running ones as they were admitted, then waiting ones as they queue."""
    n_running, n_waiting = sim.counts[state.N_RUNNING], sim.counts[state.N_WAITING]
    scratch, requests = sim.scratch, sim.requests
    n = n_running + n_waiting
    for row in range(n):
        request = sim.running[row] if row < n_running else sim.waiting[row - n_running]
        scratch.active[row] = request
        made, computed = requests.made[request], requests.computed[request]
        left = requests.prompt[request] + made - computed
        phase = WAITING
        if row < n_running:
            phase = DECODE if made > 0 and left <= 1 else PREFILL
        arrival, ttft, tbt = requests.arrival[request], requests.ttft[request], requests.tbt[request]
        scratch.phase[row] = phase
        scratch.arrival[row] = arrival
        scratch.remaining[row] = max(left, 1)
        scratch.cached[row] = computed
        scratch.slack[row] = arrival + ttft + made * tbt - now
        scratch.ttft[row] = ttft
        scratch.tbt[row] = tbt
        scratch.safeguard[row] = requests.safeguard[request]
        scratch.relegated[row] = requests.relegated[request]
    tokens, seconds = sim.clock[state.TOKENS_SUM], sim.clock[state.SECONDS_SUM]
    return Columns(
        now,
        scratch.phase[:n],
        scratch.arrival[:n],
        scratch.remaining[:n],
        scratch.cached[:n],
        scratch.slack[:n],
        scratch.tbt[:n],
        scratch.ttft[:n],
        scratch.safeguard[:n],
        scratch.relegated[:n],
        limits.max_tokens,
        max(limits.max_requests - n_running, 0),
        sim.pool.free[0] * sim.pool.block,
        tokens / seconds if seconds > 0 else 0.0,
    )


@compiled
def _keep_relegated(sim: State, decision: Decision) -> None:
    for row in range(len(decision.relegated)):
        if decision.relegated[row]:
            sim.requests.relegated[sim.scratch.active[row]] = True


@compiled
def _planned(sim: State, slot: int, decision: Decision, columns: Columns, limits: Limits) -> int:
    """Arrange line, queue and caps as the adapter's `Step.apply` arranges vLLM."""
    scratch, n_running = sim.scratch, sim.counts[state.N_RUNNING]
    n_line, n_queue, decodes = 0, 0, 0
    for row in range(n_running):
        if columns.phase[row] == DECODE:
            scratch.line[n_line] = row
            n_line += 1
            decodes += decision.tokens[row]
    for served in (True, False):
        for row in decision.order:
            if row < n_running and (decision.tokens[row] > 0) == served:
                scratch.line[n_line] = row
                n_line += 1
    for row in decision.order:
        if row >= n_running and decision.tokens[row] > 0:
            scratch.queue[n_queue] = row
            n_queue += 1
    for row in range(len(decision.tokens)):
        scratch.cap[row] = decision.tokens[row]
    budget = min(max(decision.budget, decodes), limits.max_tokens)
    sim.batches.sizes[slot, state.BUDGET] = budget
    return allocate(sim, slot, budget, n_line, n_queue, limits.max_requests)


@compiled
def _stock(sim: State, slot: int, budget: int, limits: Limits) -> int:
    """VLLM's own order: everybody in the order of the lists, with as much as the budget has left."""
    n_running, n_waiting = sim.counts[state.N_RUNNING], sim.counts[state.N_WAITING]
    scratch = sim.scratch
    scratch.line[:n_running] = np.arange(n_running)
    scratch.queue[:n_waiting] = n_running + np.arange(n_waiting)
    scratch.cap[: n_running + n_waiting] = _NO_CAP
    sim.batches.sizes[slot, state.BUDGET] = budget
    return allocate(sim, slot, budget, n_running, n_waiting, limits.max_requests)
