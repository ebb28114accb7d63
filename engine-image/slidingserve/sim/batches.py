"""A batch from its start to its end: how long it takes, what the predictor expects, tokens delivered."""

from __future__ import annotations

from slidingserve.core.batch import predict
from slidingserve.core.columns import Bools, Floats, Ints, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.throughput import update
from slidingserve.hardware.timing import Timing, batch_seconds
from slidingserve.predictor.features import Features
from slidingserve.sim import kv, state
from slidingserve.sim.state import State

DECODE, PREFILL, MIXED = 0, 1, 2
"""The scenes of equation 3."""


@compiled
def as_batch(sim: State, slot: int) -> Features:
    """Table 1 of the batch in `slot`."""
    batches = sim.batches
    prefills, decodes = batches.sizes[slot, state.N_PREFILLS], batches.sizes[slot, state.N_DECODES]
    counts, contexts = batches.prefill_tokens[slot, :prefills], batches.prefill_cached[slot, :prefills]
    attention = squares = cached = tokens = largest = 0
    for count, before in zip(counts, contexts):  # noqa: B905 (numba knows no `strict`)
        attention += count * (before + count)
        squares += count * count
        cached += before
        tokens += count
        largest = max(largest, count)
    context = batches.decode_cached[slot, :decodes].sum()
    return Features(
        float(attention),
        float(squares),
        float(cached + context),
        float(decodes),
        float(context),
        float(tokens),
        float(largest),
    )


@compiled
def begin(sim: State, slot: int, now: float, timing: Timing, noise: Floats, weights: Weights) -> float:
    """The batch in `slot` starts; returns its end. Its true time is known to nobody before that."""
    batches = sim.batches
    prefills, decodes = batches.sizes[slot, state.N_PREFILLS], batches.sizes[slot, state.N_DECODES]
    seconds = batch_seconds(
        timing,
        batches.prefill_tokens[slot, :prefills],
        batches.prefill_cached[slot, :prefills],
        batches.decode_cached[slot, :decodes],
    )
    seconds *= noise[sim.counts[state.STEP] % len(noise)]
    sim.counts[state.STEP] += 1
    batch = as_batch(sim, slot)
    predicted = predict(weights, batch)
    batches.times[slot, state.START] = now
    batches.times[slot, state.END] = now + seconds
    batches.times[slot, state.PREDICTED] = predicted
    log, place = sim.log, sim.counts[state.LOGGED]
    log.start[place], log.seconds[place], log.predicted[place] = now, seconds, predicted
    for j in range(7):
        log.features[place, j] = batch[j]
    log.scene[place] = DECODE if prefills == 0 else MIXED if decodes else PREFILL
    log.tokens[place] = int(batch.prefill_tokens) + decodes
    log.decodes[place] = decodes
    log.branch[place] = batches.sizes[slot, state.BRANCH]
    log.budget[place] = batches.sizes[slot, state.BUDGET]
    end: float = batches.times[slot, state.END]
    return end


@compiled
def finish(sim: State, slot: int) -> None:
    """The batch in `slot` ended: it is measured, and every token of it is delivered now."""
    batches, log = sim.batches, sim.log
    now = batches.times[slot, state.END]
    seconds = now - batches.times[slot, state.START]
    place = sim.counts[state.LOGGED]
    prefill_tokens = log.tokens[place] - log.decodes[place]
    sim.counts[state.LOGGED] = place + 1
    sim.clock[state.TOKENS_SUM], sim.clock[state.SECONDS_SUM] = update(
        sim.clock[state.TOKENS_SUM], sim.clock[state.SECONDS_SUM], prefill_tokens, seconds
    )
    decodes, prefills = batches.sizes[slot, state.N_DECODES], batches.sizes[slot, state.N_PREFILLS]
    ended = _deliver(sim, batches.decode_row[slot, :decodes], batches.decode_yields[slot], now)
    ended += _deliver(sim, batches.prefill_row[slot, :prefills], batches.prefill_yields[slot], now)
    if ended:
        sim.counts[state.N_DONE] += ended
        sim.counts[state.N_RUNNING] = _without_done(sim, sim.running, sim.counts[state.N_RUNNING])
        sim.counts[state.N_WAITING] = _without_done(sim, sim.waiting, sim.counts[state.N_WAITING])


@compiled
def _deliver(sim: State, rows: Ints, yields: Bools, now: float) -> int:
    """A token for each of these requests that yields one; how many of them were the last."""
    requests, ended = sim.requests, 0
    flying, delivered, output = requests.flying, requests.delivered, requests.output
    times, times_start = requests.times, requests.times_start
    for i in range(len(rows)):
        request = rows[i]
        flying[request] -= 1
        if not yields[i]:
            continue
        times[times_start[request] + delivered[request]] = now
        delivered[request] += 1
        if delivered[request] == output[request]:
            # It may have been preempted while its last token was computed: then it holds nothing and waits.
            kv.release(sim.pool, request)
            requests.status[request] = state.DONE
            ended += 1
    return ended


@compiled
def _without_done(sim: State, members: Ints, count: int) -> int:
    kept = 0
    for place in range(count):
        if sim.requests.status[members[place]] != state.DONE:
            members[kept] = members[place]
            kept += 1
    return kept
