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
        np.ascontiguousarray(trace.arrival, np.float64),
        np.ascontiguousarray(trace.prompt_tokens, np.int64),
        np.ascontiguousarray(trace.output_tokens, np.int64),
        np.ascontiguousarray(ttft, np.float64),
        np.ascontiguousarray(tbt, np.float64),
        np.zeros(n, np.bool_) if safeguard is None else np.ascontiguousarray(safeguard, np.bool_),
        np.zeros(n, np.int8),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(int(trace.output_tokens.sum())),
        offsets_of(trace.output_tokens),
    )
    pool = make_pool(trace, blocks=kv_tokens // block_size, block_size=block_size, caching=prefix_caching)
    return State(
        requests, pool, np.zeros(most, np.int64), np.zeros(n, np.int64), np.zeros(N_COUNTS, np.int64),
        np.zeros(N_CLOCK), _batches(most), _scratch(n), _log(LOG_CAPACITY),
    )  # fmt: skip


def _batches(most: int) -> Batches:
    ints = [np.zeros((2, most), np.int64) for _ in range(5)]
    bools = [np.zeros((2, most), np.bool_) for _ in range(2)]
    return Batches(
        ints[0], ints[1], ints[2], bools[0], ints[3], ints[4], bools[1], np.zeros((2, 4), np.int64),
        np.zeros((2, 3)),
    )  # fmt: skip


def _scratch(n: int) -> Scratch:
    return Scratch(
        np.zeros(n, np.int64),
        np.zeros(n, np.int8),
        np.zeros(n),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n, np.bool_),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
    )


def _log(capacity: int) -> Log:
    floats = [np.zeros(capacity) for _ in range(3)]
    ints = [np.zeros(capacity, np.int64) for _ in range(5)]
    return Log(floats[0], floats[1], floats[2], np.zeros((capacity, 7)), *ints)
