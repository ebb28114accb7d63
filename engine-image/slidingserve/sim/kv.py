"""The KV cache as vLLM keeps it: blocks, a free queue in eviction order, prefix hits by block keys.

A block's key stands for vLLM's hash of the prefix up to its end: blocks of a shared prefix have the trace's
ids, all others a key of their own request, which only that request can hit, after a preemption. One
deviation: of two equal blocks computed at the same time only the first is found later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slidingserve.core.columns import Ints
from slidingserve.core.compiled import compiled
from slidingserve.workloads.trace import Trace, offsets_of

Small = NDArray[np.int32]


class Pool(NamedTuple):
    """b blocks (vLLM keeps one more that is never used), tables of n requests, k keys."""

    after: Small
    """The free queue: the block behind each block; entry b is the queue's head. Shape b + 1."""
    before: Small
    refs: Small
    """Requests that hold each block; shape b."""
    key: Ints
    """The key under which each block can be found, or -1; shape b."""
    found: Small
    """The block of each key, or -1; shape k."""
    table: Small
    """The blocks of request i, in order, from `start[i]` on."""
    start: Ints
    held: Ints
    """Blocks that each request holds; shape n."""
    keyed: Ints
    """How many of these have been given their key; shape n."""
    prefix: Ints
    """Keys of shared prefixes, of `per` blocks each; those of request i from `prefix_start[i]` on."""
    prefix_start: Ints
    per: int
    own: int
    """The first key that is a request's own."""
    block: int
    """Tokens of a block."""
    caching: bool
    free: Ints
    """Shape 1: how many blocks are free, those with a key included."""


def make_pool(trace: Trace, *, blocks: int, block_size: int, caching: bool) -> Pool:
    """An empty cache of that many blocks, of which vLLM keeps one for itself."""
    n = len(trace.arrival)
    usable = max(blocks - 1, 0)
    lengths = -(-(trace.prompt_tokens + trace.output_tokens) // block_size)
    start = offsets_of(lengths)
    ids, prefix = np.unique(np.asarray(trace.prefix_ids, np.int64), return_inverse=True)
    per = max(trace.prefix_block // block_size, 1)
    own = len(ids) * per
    ring = np.arange(usable + 1)
    return Pool(
        after=((ring + 1) % (usable + 1)).astype(np.int32),
        before=((ring - 1) % (usable + 1)).astype(np.int32),
        refs=np.zeros(usable, np.int32),
        key=np.full(usable, -1, np.int64),
        found=np.full(own + start[-1] if caching else 1, -1, np.int32),
        table=np.zeros(start[-1], np.int32),
        start=start,
        held=np.zeros(n, np.int64),
        keyed=np.zeros(n, np.int64),
        prefix=np.ascontiguousarray(prefix, np.int64),
        prefix_start=np.ascontiguousarray(trace.prefix_offsets, np.int64),
        per=per,
        own=own,
        block=block_size,
        caching=caching,
        free=np.array([usable], np.int64),
    )


@compiled
def blocks_for(pool: Pool, tokens: int) -> int:
    """Blocks that so many tokens fill."""
    blocks: int = (tokens + pool.block - 1) // pool.block
    return blocks


@compiled
def key_of(pool: Pool, request: int, place: int) -> int:
    """The key of a request's block."""
    first = pool.prefix_start[request]
    shared = (pool.prefix_start[request + 1] - first) * pool.per
    key: int = pool.own + pool.start[request] + place
    if place < shared:
        key = pool.prefix[first + place // pool.per] * pool.per + place % pool.per
    return key


@compiled
def hits(pool: Pool, request: int, tokens: int) -> int:
    """How many blocks from the front the cache has. The last of `tokens` is computed anew in any case."""
    if not pool.caching:
        return 0
    most = (tokens - 1) // pool.block
    count = 0
    while count < most and pool.found[key_of(pool, request, count)] >= 0:
        count += 1
    return count


@compiled
def idle_hits(pool: Pool, request: int, count: int) -> int:
    """How many of the first `count` blocks, all hits, nobody holds: they count as free until taken."""
    idle = 0
    for place in range(count):
        if pool.refs[pool.found[key_of(pool, request, place)]] == 0:
            idle += 1
    return idle


@compiled
def take_hits(pool: Pool, request: int, count: int) -> None:
    """Share the first `count` blocks of a request's prefix."""
    for place in range(count):
        block = pool.found[key_of(pool, request, place)]
        if pool.refs[block] == 0:
            _unlink(pool, block)
        pool.refs[block] += 1
        pool.table[pool.start[request] + place] = block
    pool.held[request] = count
    pool.keyed[request] = count


@compiled
def grow(pool: Pool, request: int, tokens: int) -> None:
    """Give a request blocks for `tokens` tokens in all, the least recently used first. They must be free."""
    head = len(pool.refs)
    while pool.held[request] * pool.block < tokens:
        block = pool.after[head]
        _unlink(pool, block)
        if pool.key[block] >= 0:
            pool.found[pool.key[block]] = -1
            pool.key[block] = -1
        pool.refs[block] = 1
        pool.table[pool.start[request] + pool.held[request]] = block
        pool.held[request] += 1
    if not pool.caching:
        return
    for place in range(pool.keyed[request], tokens // pool.block):
        key = key_of(pool, request, place)
        if pool.found[key] < 0:
            block = pool.table[pool.start[request] + place]
            pool.found[key] = block
            pool.key[block] = key
        pool.keyed[request] = place + 1


@compiled
def release(pool: Pool, request: int) -> None:
    """Take a request's blocks back. Those without a key are used next, the others last, tails first."""
    head = len(pool.refs)
    front = head
    for place in range(pool.held[request] - 1, -1, -1):
        block = pool.table[pool.start[request] + place]
        pool.refs[block] -= 1
        if pool.refs[block] == 0:
            if pool.key[block] < 0:
                _link(pool, block, front)
                front = block
            else:
                _link(pool, block, pool.before[head])
    pool.held[request] = 0
    pool.keyed[request] = 0


@compiled
def _unlink(pool: Pool, block: int) -> None:
    behind, ahead = pool.after[block], pool.before[block]
    pool.after[ahead] = behind
    pool.before[behind] = ahead
    pool.free[0] -= 1


@compiled
def _link(pool: Pool, block: int, ahead: int) -> None:
    """Put a block into the free queue, behind `ahead`."""
    behind = pool.after[ahead]
    pool.after[ahead] = block
    pool.before[block] = ahead
    pool.after[block] = behind
    pool.before[behind] = block
    pool.free[0] += 1
