"""One run: checks, state, segments of compiled simulation between refits of the predictor, the result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slidingserve.core.columns import Floats
from slidingserve.policies.dispatch import policy_id
from slidingserve.sim import loop, state
from slidingserve.sim.config import Resolved, SimConfig, SimError, check_seed
from slidingserve.sim.learner import Learner
from slidingserve.sim.result import Counters, Result, Steps
from slidingserve.sim.rounds import Limits
from slidingserve.sim.state import State, make_state
from slidingserve.sim.streams import batch_noise
from slidingserve.workloads import Trace

LONGEST_SECONDS = 1e9
"""Thirty years: a float of so many seconds still tells tenths of a microsecond apart."""


def run(
    trace: Trace, ttft: Floats, tbt: Floats, config: SimConfig, seed: int = 0, *, steps: bool = False
) -> Result:
    """Simulate every request of `trace` to its last token.

    `ttft`, `tbt`: limits of each request in seconds, shape n. `seed` draws the noise of batch times; the same
    arguments give the same bytes. With `steps` the result has every batch. Raises SimError for what no engine
    of that size could serve.
    """
    full = config.resolved
    check_seed("seed", seed)
    check(trace, full)
    if not len(ttft) == len(tbt) == len(trace):
        raise SimError(f"limits: {len(ttft)} and {len(tbt)} for {len(trace)} requests; give one each")
    timing = config.hardware.timing
    learner = Learner(config.predictor, full, timing, int((trace.prompt_tokens + trace.output_tokens).max()))
    sim = make_state(
        trace, ttft, tbt, kv_tokens=full.kv_tokens, block_size=full.block, max_requests=full.max_requests,
        prefix_caching=config.prefix_caching,
    )  # fmt: skip
    limits = Limits(
        policy_id(config.policy), config.policy == "fcfs", full.max_tokens, full.max_requests,
        config.async_scheduling,
    )  # fmt: skip
    noise, settings = batch_noise(seed, full.sigma), config.settings.compiled()
    every = learner.refresh_seconds or math.inf
    until, parts = every, []
    while True:
        why = loop.advance(sim, limits, timing, noise, learner.weights, settings, until)
        part = _drain(sim)
        parts.append(part)
        learner.observe(part.features, part.seconds)
        if why == loop.REFRESH_DUE:
            learner.refit()
            until = _next_refresh(sim, until, every)
        elif why == loop.ALL_DONE:
            break
        elif why == loop.STUCK:
            raise SimError(f"policy {config.policy}: it stopped with requests waiting; report this trace")
    return _result(trace, ttft, tbt, sim, _join(parts), steps)


def check(trace: Trace, full: Resolved) -> None:
    """Refuse a trace that such an engine could never finish. Raises SimError with the first such request."""
    if not len(trace):
        raise SimError("trace: it has no requests; give one or more")
    if trace.arrival[-1] > LONGEST_SECONDS:
        raise SimError(
            f"trace: its arrivals span {trace.arrival[-1]:.3g} s; give at most {LONGEST_SECONDS:g} s, as by "
            "a higher --qps or another --time-unit"
        )
    if full.block and trace.prefix_ids.size and trace.prefix_block % full.block:
        raise SimError(
            f"trace: prefix blocks of {trace.prefix_block} tokens are no multiple of the cache's {full.block}"
        )
    usable = (full.kv_tokens // full.block - 1) * full.block
    needed = trace.prompt_tokens + trace.output_tokens - 1
    worst = int(needed.argmax())
    if needed[worst] > usable:
        raise SimError(
            f"request {worst}: {trace.prompt_tokens[worst]} prompt and {trace.output_tokens[worst]} output "
            f"tokens do not fit the KV cache of {usable} tokens; drop it, or give a larger --kv-tokens"
        )


def _next_refresh(sim: State, last: float, every: float) -> float:
    """The refresh after the one at `last`. While the engine is idle there is nothing new to learn from, so
    those before the next arrival are left out: a trace may pause for a year."""
    due = last + every
    arrived, requests = int(sim.counts[state.NEXT_ARRIVAL]), sim.requests
    if sim.counts[state.IN_FLIGHT] or arrived == len(requests.arrival):
        return due
    return due + every * max(math.floor((float(requests.arrival[arrived]) - due) / every), 0)


def _drain(sim: State) -> Steps:
    """The batches that ended since the last call, copied out of the log; the one in flight moves to its
    start."""
    count, log = int(sim.counts[state.LOGGED]), sim.log
    columns: list[Any] = [column[:count].copy() for column in log]
    if sim.counts[state.IN_FLIGHT]:
        for column in log:
            column[0] = column[count]
    sim.counts[state.LOGGED] = 0
    return Steps(*columns)


def _join(parts: list[Steps]) -> Steps:
    names = list(Steps.__dataclass_fields__)
    return Steps(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _result(trace: Trace, ttft: Floats, tbt: Floats, sim: State, steps: Steps, keep: bool) -> Result:
    requests, counts = sim.requests, sim.counts
    return Result(
        trace=trace,
        ttft_limit=ttft,
        tbt_limit=tbt,
        times=requests.times,
        preempted=requests.preempted,
        relegated=requests.relegated,
        counters=Counters(
            iterations=int(counts[state.STEP]),
            seconds=float(sim.clock[state.NOW]),
            preemptions=int(counts[state.PREEMPTIONS]),
            prompt_tokens=int(counts[state.QUERY_TOKENS]),
            hit_tokens=int(counts[state.HIT_TOKENS]),
            plan_errors=int(counts[state.PLAN_ERRORS]),
        ),
        quality=steps.quality,
        steps=steps if keep else None,
    )
