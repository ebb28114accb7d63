"""A round of the simulated engine: columns from the state, the policy's decision, the batch that becomes of
it.

It does what the adapter does in the real one: see `vllm_adapter.observe` and `.step`. A plan that would do
nothing although there is work, or of which nothing fits while nothing runs, leaves the step to vLLM's own
order and is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slidingserve.core.batch import DECODE, PREFILL, WAITING
from slidingserve.core.columns import STOCK, Columns, Weights
from slidingserve.core.compiled import compiled
from slidingserve.policies.dispatch import decide
from slidingserve.sim import state
from slidingserve.sim.allocate import allocate
from slidingserve.sim.arrange import arrange, is_lost, make_room
from slidingserve.sim.state import State

_NO_CAP = 1 << 60


class Limits(NamedTuple):
    """What stays the same over a run."""

    policy: int
    stock: bool
    """The policy leaves every step to vLLM's own order."""
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
    if sim.counts[state.N_RUNNING] + sim.counts[state.N_WAITING] == 0:
        return 0
    if limits.stock:
        budget = settings.budget if settings.budget > 0 else limits.max_tokens
        return _stock(sim, slot, min(budget, limits.max_tokens), limits)
    columns, running = gather(sim, now, limits)
    if len(columns.phase) > 0:
        tokens = _planned(sim, slot, columns, running, limits, weights, settings)
        if tokens > 0 or (tokens == 0 and not alone):
            return tokens
        sim.counts[state.PLAN_ERRORS] += 1
    return _stock(sim, slot, limits.max_tokens, limits)


@compiled
def gather(sim: State, now: float, limits: Limits) -> tuple[Columns, int]:
    """The requests that could compute as columns, and how many of them run.

    Running ones as they were admitted, then waiting ones as they queue. Left out are those whose last token
    is being computed. Running prefills that are lost count as room: they can be preempted.
    """
    n_running, n_waiting = sim.counts[state.N_RUNNING], sim.counts[state.N_WAITING]
    scratch, requests, block = sim.scratch, sim.requests, sim.pool.block
    n = running = lost = lost_blocks = 0
    last = n_running + n_waiting
    for place in range(n_running + n_waiting):
        if place == n_running:
            running = n
        request = sim.running[place] if place < n_running else sim.waiting[place - n_running]
        made, computed = requests.made[request], requests.computed[request]
        if place < n_running and made >= requests.output[request]:
            last -= 1
            scratch.active[last] = request
            continue
        left = requests.prompt[request] + made - computed
        arrival, ttft, tbt = requests.arrival[request], requests.ttft[request], requests.tbt[request]
        phase = WAITING
        if place < n_running:
            phase = DECODE if made > 0 and left <= 1 else PREFILL
        scratch.active[n] = request
        scratch.phase[n] = phase
        scratch.arrival[n] = arrival
        scratch.remaining[n] = max(left, 1)
        scratch.cached[n] = computed
        scratch.slack[n] = arrival + ttft + made * tbt - now
        scratch.ttft[n] = ttft
        scratch.tbt[n] = tbt
        scratch.safeguard[n] = requests.safeguard[request]
        scratch.relegated[n] = requests.relegated[request]
        preemptible = phase == PREFILL and n_waiting > 0
        if preemptible and is_lost(scratch.relegated[n], scratch.slack[n], requests.flying[request]):
            lost += 1
            lost_blocks += computed // block
        n += 1
    if n_waiting == 0:
        running = n
    tokens, seconds = sim.clock[state.TOKENS_SUM], sim.clock[state.SECONDS_SUM]
    columns = Columns(
        now=now,
        phase=scratch.phase[:n],
        arrival=scratch.arrival[:n],
        remaining=scratch.remaining[:n],
        cached=scratch.cached[:n],
        slack=scratch.slack[:n],
        tbt_limit=scratch.tbt[:n],
        ttft_limit=scratch.ttft[:n],
        safeguard=scratch.safeguard[:n],
        relegated=scratch.relegated[:n],
        max_tokens=limits.max_tokens,
        max_admissions=max(limits.max_requests - n_running, 0) + lost,
        free_kv_tokens=(sim.pool.free[0] + lost_blocks) * block,
        throughput=tokens / seconds if seconds > 0 else 0.0,
    )
    return columns, running


@compiled
def _planned(
    sim: State, slot: int, columns: Columns, running: int, limits: Limits, weights: Weights, settings: Any
) -> int:
    """Carry out a decision as the adapter's `Step` does; -1 if it asks for nothing."""
    decision = decide(limits.policy, columns, weights, settings)
    sim.batches.sizes[slot, state.BRANCH] = decision.branch
    for row in range(len(decision.relegated)):
        sim.requests.relegated[sim.scratch.active[row]] = decision.relegated[row]
    if decision.tokens.sum() == 0:
        return -1
    sim.scratch.cap[: len(decision.tokens)] = decision.tokens
    n_line, n_queue = arrange(sim, columns, decision, running)
    n_line = make_room(sim, columns, decision, running, n_line, n_queue, limits.max_requests)
    budget = min(decision.budget, limits.max_tokens)
    sim.batches.sizes[slot, state.BUDGET] = budget
    return allocate(sim, slot, budget, n_line, n_queue, limits.max_requests)


@compiled
def _stock(sim: State, slot: int, budget: int, limits: Limits) -> int:
    """VLLM's own order: everybody in the order of the lists, with as much as the budget has left."""
    n_running, n_waiting = sim.counts[state.N_RUNNING], sim.counts[state.N_WAITING]
    scratch = sim.scratch
    scratch.active[:n_running] = sim.running[:n_running]
    scratch.active[n_running : n_running + n_waiting] = sim.waiting[:n_waiting]
    scratch.line[:n_running] = np.arange(n_running)
    scratch.queue[:n_waiting] = n_running + np.arange(n_waiting)
    scratch.cap[: n_running + n_waiting] = _NO_CAP
    sim.batches.sizes[slot, state.BRANCH] = STOCK
    sim.batches.sizes[slot, state.BUDGET] = budget
    return allocate(sim, slot, budget, n_running, n_waiting, limits.max_requests)
