"""The discrete events: a heap of (time, priority, sequence), handled in compiled code until Python is needed.

Arrivals come from the trace, the end of each batch from the hardware model; `advance` returns when the
predictor is to be refreshed, when the log of batches is full, or when every request has its last token.
"""

from __future__ import annotations

import heapq
from typing import Any

from slidingserve.core.columns import Floats, Weights
from slidingserve.core.compiled import compiled
from slidingserve.hardware.timing import Timing
from slidingserve.sim import state
from slidingserve.sim.batches import begin, finish
from slidingserve.sim.rounds import Limits, plan_batch
from slidingserve.sim.state import State

# Priorities of events at the same moment. A refresh comes first, so that it never parts an arrival from the
# step that it starts.
REFRESH, STEP_END, ARRIVAL = 0, 1, 2

ALL_DONE, REFRESH_DUE, LOG_FULL, STUCK = 0, 1, 2, 3


@compiled
def advance(
    sim: State, limits: Limits, timing: Timing, noise: Floats, weights: Weights, settings: Any, until: float
) -> int:
    """Simulate up to `until`; returns why it stopped. Call again to go on, with other weights if need be.

    STUCK: requests wait and nothing can ever happen again, which a run's checks exclude.
    """
    requests, counts, batches = sim.requests, sim.counts, sim.batches
    n = len(requests.arrival)
    heap = [(until, REFRESH, 0)]
    if counts[state.NEXT_ARRIVAL] < n:
        heapq.heappush(
            heap, (requests.arrival[counts[state.NEXT_ARRIVAL]], ARRIVAL, counts[state.NEXT_ARRIVAL])
        )
    if counts[state.IN_FLIGHT]:
        heapq.heappush(heap, (batches.times[counts[state.SLOT], state.END], STEP_END, counts[state.STEP]))
    while counts[state.N_DONE] < n:
        now, kind, _ = heapq.heappop(heap)
        if kind == REFRESH:
            idle = not counts[state.IN_FLIGHT] and counts[state.NEXT_ARRIVAL] == n
            return STUCK if idle else REFRESH_DUE
        sim.clock[state.NOW] = now
        started = False
        if kind == ARRIVAL:
            arrived = _arrive(sim)
            if arrived + 1 < n:
                heapq.heappush(heap, (requests.arrival[arrived + 1], ARRIVAL, arrived + 1))
        else:
            finish(sim, counts[state.SLOT])
            counts[state.IN_FLIGHT] = 0
        # Whatever happens at the same moment is known before the next step is planned.
        if heap[0][0] == now and heap[0][1] != REFRESH:
            continue
        if counts[state.IN_FLIGHT] == 0:
            started = _next_batch(sim, now, limits, weights, settings)
            if started:
                end = begin(sim, counts[state.SLOT], now, timing, noise, weights)
                heapq.heappush(heap, (end, STEP_END, counts[state.STEP]))
        if started and limits.asynchronous:
            _plan_ahead(sim, limits, weights, settings)
        if counts[state.LOGGED] == len(sim.log.start) - 1:
            return LOG_FULL  # the last place is taken by the batch in flight
    return ALL_DONE


@compiled
def _arrive(sim: State) -> int:
    """The next request of the trace queues."""
    counts = sim.counts
    request: int = counts[state.NEXT_ARRIVAL]
    counts[state.NEXT_ARRIVAL] = request + 1
    sim.requests.status[request] = state.WAITING
    sim.waiting[counts[state.N_WAITING]] = request
    counts[state.N_WAITING] += 1
    return request


@compiled
def _next_batch(sim: State, now: float, limits: Limits, weights: Weights, settings: Any) -> bool:
    """Nothing runs: take the batch that was planned ahead, or plan one. False: there is nothing to do."""
    counts = sim.counts
    if counts[state.QUEUED]:
        counts[state.QUEUED] = 0
        counts[state.SLOT] = 1 - counts[state.SLOT]
    elif plan_batch(sim, counts[state.SLOT], now, True, limits, weights, settings) == 0:
        return False
    counts[state.IN_FLIGHT] = 1
    return True


@compiled
def _plan_ahead(sim: State, limits: Limits, weights: Weights, settings: Any) -> None:
    """Asynchronous scheduling: when a batch starts, the one behind it is planned, for its predicted end."""
    counts, times = sim.counts, sim.batches.times
    slot = counts[state.SLOT]
    expected = times[slot, state.START] + times[slot, state.PREDICTED]
    if plan_batch(sim, 1 - slot, expected, False, limits, weights, settings):
        counts[state.QUEUED] = 1
