"""The KV cache: capacity, preemption, prefix hits, eviction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve import sim
from slidingserve.policies.dispatch import NAMES
from slidingserve.sim import kv

from tests.unit.sim.engines import busy, engine, limits, trace

BLOCK = 16


def in_queue(pool: kv.Pool) -> list[int]:
    head, found = len(pool.refs), []
    block = int(pool.after[head])
    while block != head:
        found.append(block)
        block = int(pool.after[block])
    return found


def consistent(pool: kv.Pool) -> None:
    queue = in_queue(pool)
    assert len(queue) == len(set(queue)) == pool.free[0]
    assert set(queue) == set(np.flatnonzero(pool.refs == 0).tolist())
    held = np.zeros(len(pool.refs), int)
    for request in range(len(pool.held)):
        first = pool.start[request]
        np.add.at(held, pool.table[first : first + pool.held[request]], 1)
    assert (held == pool.refs).all()
    for key in np.flatnonzero(pool.found >= 0):
        assert pool.key[pool.found[key]] == key


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 200), st.booleans()), max_size=60))
@settings(max_examples=60, deadline=None)
def test_blocks_are_never_lost_shared_by_chance_or_found_under_a_wrong_key(
    steps: list[tuple[int, int, bool]],
) -> None:
    prefixes = np.array([1, 2, 1, 2, 3, 1, 1], np.int64)
    offsets = np.array([0, 2, 5, 6, 7, 7, 7], np.int64)
    of = trace(np.zeros(6), 200, 200, prefix_ids=prefixes, prefix_offsets=offsets, prefix_block=2 * BLOCK)
    pool = kv.make_pool(of, blocks=21, block_size=BLOCK, caching=True)
    for request, tokens, give_up in steps:
        if give_up:
            kv.release(pool, request)
        else:
            if pool.held[request] == 0:
                kv.take_hits(pool, request, kv.hits(pool, request, 200))
            need = kv.blocks_for(pool, tokens) - pool.held[request]
            if need <= pool.free[0]:
                kv.grow(pool, request, tokens)
        consistent(pool)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tiny_cache_preempts_and_everybody_gets_all_tokens(policy: str, asynchronous: bool) -> None:
    of = busy(80)
    tiny = engine(policy, kv_tokens=3600, async_scheduling=asynchronous)
    result = sim.run(of, *limits(of), tiny, steps=True)
    assert result.counters.preemptions > 0
    assert result.counters.preemptions == result.preempted.sum()
    assert (result.finish >= result.first).all()
    assert (result.gaps(np.ones(len(of), bool)) > 0).all()
    assert result.steps is not None
    assert result.steps.tokens.sum() >= of.prompt_tokens.sum()


def test_a_repeated_prompt_is_not_prefilled_again_but_for_its_last_block() -> None:
    ids = np.tile(np.array([5, 6, 7], np.int64), 2)
    of = trace(
        [0.0, 5.0], 3 * 512, 4, prefix_ids=ids, prefix_offsets=np.array([0, 3, 6], np.int64), prefix_block=512
    )
    with_cache = sim.run(of, *limits(of), engine(), steps=True)
    without = sim.run(of, *limits(of), engine(prefix_caching=False), steps=True)
    assert with_cache.counters.hit_tokens == 3 * 512 - BLOCK
    assert without.counters.hit_tokens == 0
    assert with_cache.steps is not None
    assert without.steps is not None
    assert without.steps.tokens.sum() - with_cache.steps.tokens.sum() == 3 * 512 - BLOCK
    assert with_cache.ttft[1] < without.ttft[1]


def test_what_was_used_least_recently_is_evicted_first() -> None:
    # Three prompts of 512 tokens in a cache of three and a bit: the fourth evicts the first one's tail.
    ids = np.array([1, 2, 3, 4, 2, 1], np.int64)
    of = trace(
        np.arange(6) * 5.0, 513, 1, prefix_ids=ids, prefix_offsets=np.arange(7, dtype=np.int64),
        prefix_block=512,
    )  # fmt: skip
    result = sim.run(of, *limits(of), engine(kv_tokens=3 * 512 + 4 * BLOCK), steps=True)
    assert result.steps is not None
    last = result.steps.features[-2:, 2]  # cached tokens of the two repeats
    assert last[0] == 512
    assert last[1] < 512


def test_without_prefix_caching_a_preempted_request_starts_from_nothing() -> None:
    of = busy(80)
    tiny = engine(kv_tokens=3600, prefix_caching=False)
    result = sim.run(of, *limits(of), tiny)
    assert result.counters.preemptions > 0
    assert result.counters.hit_tokens == 0
