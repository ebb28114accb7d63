"""vLLM's `schedule()` in a hundred lines: who gets tokens and blocks in this step, who is preempted, who
starts.

Running requests are served in `scratch.line`, then waiting ones in `scratch.queue`, each with at most
`scratch.cap` tokens; the caller has arranged the three as the adapter arranges vLLM for a plan, or as vLLM
itself would. A request's work is counted as done once it is scheduled, as vLLM counts it.
"""

from __future__ import annotations

from slidingserve.core.compiled import compiled
from slidingserve.sim import kv, state
from slidingserve.sim.state import State


@compiled
def allocate(sim: State, slot: int, budget: int, n_line: int, n_queue: int, most_running: int) -> int:
    """Fill the batch in `slot`; returns its tokens. 0: nothing could be done."""
    sim.batches.sizes[slot, state.N_PREFILLS] = 0
    sim.batches.sizes[slot, state.N_DECODES] = 0
    given, left_in_line = _serve_running(sim, slot, budget, n_line)
    admitted = 0
    if left_in_line == n_line:  # a step that had to preempt admits nobody
        extra, admitted = _admit(sim, slot, budget - given, n_queue, most_running)
        given += extra
    if sim.counts[state.N_GONE] or admitted:
        _renew_lists(sim, admitted)
    return given


@compiled
def _serve_running(sim: State, slot: int, budget: int, n_line: int) -> tuple[int, int]:
    """Tokens given, and how much of the line is left: its tail gives way when blocks run out."""
    requests, pool, scratch = sim.requests, sim.pool, sim.scratch
    given, place = 0, 0
    while place < n_line and given < budget:
        row = scratch.line[place]
        request = scratch.active[row]
        total = requests.prompt[request] + requests.made[request]
        count = min(total - requests.computed[request], scratch.cap[row], budget - given)
        # One whose last token is being computed has nothing left to do.
        if count <= 0 or requests.made[request] >= requests.output[request]:
            place += 1
            continue
        after = requests.computed[request] + count
        need = kv.blocks_for(pool, after) - pool.held[request]
        while pool.free[0] < need and n_line > place:
            n_line -= 1
            preempt(sim, scratch.active[scratch.line[n_line]])
        if n_line == place:
            break  # it had to give way itself
        kv.grow(pool, request, after)
        _put(sim, slot, request, count, total)
        given += count
        place += 1
    return given, n_line


@compiled
def _admit(sim: State, slot: int, budget: int, n_queue: int, most_running: int) -> tuple[int, int]:
    """Start waiting requests while budget, places and blocks last; the first that cannot start ends it."""
    requests, pool, scratch = sim.requests, sim.pool, sim.scratch
    given, admitted = 0, 0
    places = most_running - sim.counts[state.N_RUNNING] + sim.counts[state.N_GONE]
    while admitted < n_queue and given < budget and admitted < places:
        row = scratch.queue[admitted]
        request = scratch.active[row]
        total = requests.prompt[request] + requests.made[request]
        hit = kv.hits(pool, request, total)
        cached = hit * pool.block
        count = min(total - cached, scratch.cap[row], budget - given)
        # vLLM admits a request only if all of it fits, however small its first chunk is.
        need = kv.blocks_for(pool, total) - hit
        if count <= 0 or need + kv.idle_hits(pool, request, hit) > pool.free[0]:
            break
        kv.take_hits(pool, request, hit)
        kv.grow(pool, request, cached + count)
        requests.computed[request] = cached
        requests.status[request] = state.RUNNING
        sim.counts[state.QUERY_TOKENS] += total
        sim.counts[state.HIT_TOKENS] += cached
        _put(sim, slot, request, count, total)
        given += count
        admitted += 1
    return given, admitted


@compiled
def _put(sim: State, slot: int, request: int, count: int, total: int) -> None:
    """Enter `count` tokens of a request into the batch. A decode is one token past the prompt, as the adapter
    sees it."""
    requests, batches = sim.requests, sim.batches
    cached = requests.computed[request]
    yields = cached + count == total
    if count == 1 and cached >= requests.prompt[request]:
        place = batches.sizes[slot, state.N_DECODES]
        batches.decode_row[slot, place] = request
        batches.decode_cached[slot, place] = cached
        batches.decode_yields[slot, place] = yields
        batches.sizes[slot, state.N_DECODES] = place + 1
    else:
        place = batches.sizes[slot, state.N_PREFILLS]
        batches.prefill_row[slot, place] = request
        batches.prefill_tokens[slot, place] = count
        batches.prefill_cached[slot, place] = cached
        batches.prefill_yields[slot, place] = yields
        batches.sizes[slot, state.N_PREFILLS] = place + 1
    requests.computed[request] = cached + count
    requests.flying[request] += 1
    if yields:
        requests.made[request] += 1


@compiled
def preempt(sim: State, request: int) -> None:
    """By recompute: all blocks are given up, prompt and output are computed again. `allocate`, which must
    follow, puts the request in front of the waiting ones."""
    sim.scratch.gone[sim.counts[state.N_GONE]] = request
    sim.counts[state.N_GONE] += 1
    kv.release(sim.pool, request)
    sim.requests.computed[request] = 0
    sim.requests.status[request] = state.WAITING
    sim.requests.preempted[request] += 1
    sim.counts[state.PREEMPTIONS] += 1


@compiled
def _renew_lists(sim: State, admitted: int) -> None:
    """Running: as before, less the preempted, then the admitted. Waiting: the preempted, the last first, then
    as before, less the admitted."""
    running, waiting, counts, scratch = sim.running, sim.waiting, sim.counts, sim.scratch
    status = sim.requests.status
    count = 0
    for place in range(counts[state.N_RUNNING]):
        if status[running[place]] == state.RUNNING:
            running[count] = running[place]
            count += 1
    for place in range(admitted):
        running[count] = scratch.active[scratch.queue[place]]
        count += 1
    counts[state.N_RUNNING] = count
    count = 0
    for place in range(counts[state.N_WAITING]):
        if status[waiting[place]] == state.WAITING:
            waiting[count] = waiting[place]
            count += 1
    gone = counts[state.N_GONE]
    waiting[gone : gone + count] = waiting[:count].copy()
    for place in range(gone):
        waiting[place] = scratch.gone[gone - 1 - place]
    counts[state.N_WAITING] = count + gone
    counts[state.N_GONE] = 0
