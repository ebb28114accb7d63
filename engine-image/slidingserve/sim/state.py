"""The simulated engine's state as arrays that compiled code reads and writes: requests, lists, batches, log.

Everything of n requests is an array of length n, rows in the order of the trace. `make_state` lays it out for
one run; `kv` has the cache's part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slidingserve.core.columns import Bools, Bytes, Floats, Ints
from slidingserve.sim.kv import Pool, make_pool
from slidingserve.workloads.trace import Trace, offsets_of

# Where a request stands.
FUTURE, WAITING, RUNNING, DONE = 0, 1, 2, 3

# Entries of `Engine.counts`.
N_RUNNING = 0
N_WAITING = 1
NEXT_ARRIVAL = 2
N_DONE = 3
STEP = 4
"""Batches that were started: the index into the noise."""
SLOT = 5
"""Which of the two batches runs."""
IN_FLIGHT = 6
QUEUED = 7
"""Asynchronous scheduling: the next batch is planned and waits for the one that runs."""
LOGGED = 8
PREEMPTIONS = 9
HIT_TOKENS = 10
QUERY_TOKENS = 11
"""Prompt tokens (after a preemption: output too) of admissions, and how many of them the prefix cache had."""
PLAN_ERRORS = 12
"""Plans that would have done nothing although there was work, or of which nothing fitted: vLLM's own order
served that step, as in the engine."""
N_GONE = 13
"""Requests that were preempted in the round that is being planned."""
N_COUNTS = 16

# Entries of `Engine.clock`.
NOW, TOKENS_SUM, SECONDS_SUM, N_CLOCK = 0, 1, 2, 3


class Requests(NamedTuple):
    """What was asked (the first six) and how far each request is; times in seconds, sizes in tokens."""

    arrival: Floats
    prompt: Ints
    output: Ints
    ttft: Floats
    tbt: Floats
    safeguard: Bools
    status: Bytes
    relegated: Bools
    computed: Ints
    """Tokens in the KV cache; those that the batch in flight computes are counted already."""
    made: Ints
    """Output tokens, that of the batch in flight counted already."""
    delivered: Ints
    preempted: Ints
    flying: Ints
    """Batches that it is in, of the one that runs and the one behind it."""
    times: Floats
    """When each token was delivered: those of request i from `times_start[i]` on."""
    times_start: Ints


class Batches(NamedTuple):
    """Two batches (in flight, and the one planned behind it), each split as the hardware model reads it.

    Arrays of shape (2, most requests); `sizes` of shape (2, 4): prefills, decodes, branch, budget; `times` of
    shape (2, 3): start, end, predicted seconds.
    """

    prefill_row: Ints
    prefill_tokens: Ints
    prefill_cached: Ints
    prefill_yields: Bools
    """Whether the request has its next token at the batch's end."""
    decode_row: Ints
    decode_cached: Ints
    decode_yields: Bools
    sizes: Ints
    times: Floats


N_PREFILLS, N_DECODES, BRANCH, BUDGET = 0, 1, 2, 3
START, END, PREDICTED = 0, 1, 2


class Scratch(NamedTuple):
    """Buffers of a round, reused: the columns of the active requests and the orders in which to serve."""

    active: Ints
    """Request of each row: the running ones, then the waiting ones. Behind them those that are in no plan."""
    phase: Bytes
    arrival: Floats
    remaining: Ints
    cached: Ints
    slack: Floats
    tbt: Floats
    ttft: Floats
    safeguard: Bools
    relegated: Bools
    cap: Ints
    """Most tokens of each row in this step."""
    line: Ints
    """Running rows in the order of service."""
    queue: Ints
    """Waiting rows in the order of admission."""
    rank: Ints
    """Place of each row in the plan's order."""
    gone: Ints
    """Requests preempted in this round, in that order."""


class Log(NamedTuple):
    """The batches that ended since the log was last read; capacity c."""

    start: Floats
    seconds: Floats
    predicted: Floats
    features: Floats
    """Shape (c, 7)."""
    scene: Ints
    tokens: Ints
    decodes: Ints
    branch: Ints
    budget: Ints


class State(NamedTuple):
    """All of it."""

    requests: Requests
    pool: Pool
    running: Ints
    """Requests in vLLM's order, the first `N_RUNNING` are meant."""
    waiting: Ints
    counts: Ints
    clock: Floats
    batches: Batches
    scratch: Scratch
    log: Log


LOG_CAPACITY = 8192


def make_state(
    trace: Trace, ttft: Floats, tbt: Floats, *, kv_tokens: int, block_size: int, max_requests: int,
    prefix_caching: bool, safeguard: Bools | None = None,
) -> State:  # fmt: skip
    """The state before the first arrival."""
    n = len(trace.arrival)
    most = max_requests + 1
    requests = Requests(
        arrival=np.ascontiguousarray(trace.arrival, np.float64),
        prompt=np.ascontiguousarray(trace.prompt_tokens, np.int64),
        output=np.ascontiguousarray(trace.output_tokens, np.int64),
        ttft=np.ascontiguousarray(ttft, np.float64),
        tbt=np.ascontiguousarray(tbt, np.float64),
        safeguard=np.zeros(n, np.bool_) if safeguard is None else np.ascontiguousarray(safeguard, np.bool_),
        status=np.zeros(n, np.int8),
        relegated=np.zeros(n, np.bool_),
        computed=np.zeros(n, np.int64),
        made=np.zeros(n, np.int64),
        delivered=np.zeros(n, np.int64),
        preempted=np.zeros(n, np.int64),
        flying=np.zeros(n, np.int64),
        times=np.zeros(int(trace.output_tokens.sum())),
        times_start=offsets_of(trace.output_tokens),
    )
    return State(
        requests=requests,
        pool=make_pool(trace, blocks=kv_tokens // block_size, block_size=block_size, caching=prefix_caching),
        running=np.zeros(most, np.int64),
        waiting=np.zeros(n, np.int64),
        counts=np.zeros(N_COUNTS, np.int64),
        clock=np.zeros(N_CLOCK),
        batches=_batches(most),
        scratch=_scratch(n),
        log=_log(LOG_CAPACITY),
    )


def _batches(most: int) -> Batches:
    return Batches(
        prefill_row=np.zeros((2, most), np.int64),
        prefill_tokens=np.zeros((2, most), np.int64),
        prefill_cached=np.zeros((2, most), np.int64),
        prefill_yields=np.zeros((2, most), np.bool_),
        decode_row=np.zeros((2, most), np.int64),
        decode_cached=np.zeros((2, most), np.int64),
        decode_yields=np.zeros((2, most), np.bool_),
        sizes=np.zeros((2, 4), np.int64),
        times=np.zeros((2, 3)),
    )


def _scratch(n: int) -> Scratch:
    return Scratch(
        active=np.zeros(n, np.int64),
        phase=np.zeros(n, np.int8),
        arrival=np.zeros(n),
        remaining=np.zeros(n, np.int64),
        cached=np.zeros(n, np.int64),
        slack=np.zeros(n),
        tbt=np.zeros(n),
        ttft=np.zeros(n),
        safeguard=np.zeros(n, np.bool_),
        relegated=np.zeros(n, np.bool_),
        cap=np.zeros(n, np.int64),
        line=np.zeros(n, np.int64),
        queue=np.zeros(n, np.int64),
        rank=np.zeros(n, np.int64),
        gone=np.zeros(n, np.int64),
    )


def _log(capacity: int) -> Log:
    return Log(
        start=np.zeros(capacity),
        seconds=np.zeros(capacity),
        predicted=np.zeros(capacity),
        features=np.zeros((capacity, 7)),
        scene=np.zeros(capacity, np.int64),
        tokens=np.zeros(capacity, np.int64),
        decodes=np.zeros(capacity, np.int64),
        branch=np.zeros(capacity, np.int64),
        budget=np.zeros(capacity, np.int64),
    )
