"""The batch time function against the tables that it reads, and against plain arithmetic."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from slidingserve import hardware
from slidingserve.core.compiled import compiled
from slidingserve.hardware import Hardware, Timing, batch_seconds
from slidingserve.hardware.timing import attention_seconds

PROFILES = hardware.names()
SERVED = ("rtx4090-tp1-llama3.1-8b", "rtxpro6000-tp1-llama3.1-8b", "rtxpro6000-tp2-llama3.1-8b")


def step(
    profile: Hardware, prefills: list[tuple[int, int]] | None = None, decodes: list[int] | None = None
) -> float:
    """Seconds of a batch of (tokens, cached) prefills and decodes by cached tokens."""
    pairs = np.array(prefills or [], np.int64).reshape(-1, 2)
    return batch_seconds(
        profile.timing,
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        np.array(decodes or [], np.int64),
    )


@pytest.mark.parametrize(
    ("tokens", "milliseconds"), [(64, 21.5), (128, 35.5), (256, 53.9), (512, 106.0), (2048, 386.0)]
)
def test_the_3090_pair_takes_the_stated_times_without_context(tokens: int, milliseconds: float) -> None:
    # The reference leaves out attention to the own chunk and the sampler: 2 to 4 % here.
    assert 1e3 * step(hardware.get("rtx3090-tp2-llama3.1-8b"), [(tokens, 0)]) == pytest.approx(
        milliseconds, rel=0.05
    )


def test_the_kernels_stairs_are_kept_to_the_token() -> None:
    times = [step(hardware.get("rtx3090-tp2-llama3.1-8b"), [(n, 0)]) for n in range(120, 137)]
    rise = np.diff(times) / times[:-1]
    assert np.argmax(rise) == 128 - 120  # from 128 to 129 a new row of tiles begins
    assert rise.max() > 0.25
    assert np.abs(rise[:8]).max() < 0.05
    assert np.delete(rise, rise.argmax()).max() < 0.5 * rise.max()


@pytest.mark.parametrize("name", PROFILES)
def test_a_lone_spike_does_not_pass_for_a_stair(name: str) -> None:
    dense = hardware.get(name).timing.dense[1:]
    around = np.maximum(dense[:-2], dense[2:])
    assert (dense[1:-1] <= 1.15 * around).all()


@pytest.mark.parametrize("name", PROFILES)
def test_on_a_grid_point_the_table_is_met_exactly(name: str) -> None:
    timing = hardware.get(name).timing
    rng = np.random.default_rng(1)
    for _ in range(200):
        i, j, k, m = (
            int(rng.integers(low, size))
            for low, size in zip((1, 0, 1, 0), timing.attention.shape, strict=True)
        )
        chunk, cached = timing.chunks[i], timing.contexts[j]
        count, context = timing.decodes[k], timing.decode_contexts[m]
        pairs = chunk * (cached + chunk / 2)
        mixed = attention_seconds(timing, chunk, pairs, count, count * context, context)
        assert mixed == pytest.approx(timing.attention[i, j, k, m], rel=1e-9)
        alone = attention_seconds(timing, 0.0, 0.0, count, count * context, context)
        assert alone == pytest.approx(timing.attention[0, 0, k, m], rel=1e-9)
        prefill = attention_seconds(timing, chunk, pairs, 0.0, 0.0, 0.0)
        assert prefill == pytest.approx(timing.attention[i, j, 0, 0], rel=1e-9)


def test_between_grid_points_the_time_lies_between() -> None:
    timing = hardware.get("rtx4090-tp1-llama3.1-8b").timing
    low, high = timing.attention[6, 5, 3, 6], timing.attention[7, 5, 3, 6]
    chunk, cached = 700.0, timing.contexts[5]
    context = timing.decodes[3] * timing.decode_contexts[6]
    found = attention_seconds(
        timing, chunk, chunk * (cached + chunk / 2), timing.decodes[3], context, timing.decode_contexts[6]
    )
    assert low < found < high


@pytest.mark.parametrize("name", [name for name in PROFILES if name not in SERVED])
@settings(max_examples=60, deadline=None)
@given(
    chunk=st.integers(1, 2048),
    cached=st.integers(0, 30_000),
    decodes=st.lists(st.integers(1, 30_000), max_size=80),
    more=st.integers(1, 5_000),
)
def test_more_context_never_takes_less(
    name: str, chunk: int, cached: int, decodes: list[int], more: int
) -> None:
    profile = hardware.get(name)
    bound = 1 - (0.01 if name.startswith(("a100", "h100")) else 1e-9)  # measured rows dip by 3 % of attention
    assert step(profile, [(chunk, cached + more)], decodes) >= bound * step(
        profile, [(chunk, cached)], decodes
    )
    assert step(profile, None, [d + more for d in decodes]) >= bound * step(profile, None, decodes)


@pytest.mark.parametrize("name", SERVED)
def test_measured_surfaces_rise_with_context_but_for_dips_that_were_measured(name: str) -> None:
    attention = hardware.get(name).timing.attention
    assert (np.diff(attention[1:], axis=1) > -0.1 * attention[1:, :-1]).mean() > 0.98
    assert (np.diff(attention[:, :, 1:], axis=3) > -0.05 * attention[:, :, 1:, :-1]).all()


@pytest.mark.parametrize("name", PROFILES)
def test_extreme_batches_have_finite_positive_times(name: str) -> None:
    profile = hardware.get(name)
    batches: list[tuple[list[tuple[int, int]], list[int]]] = [
        ([(1, 0)], []),
        ([], [0]),
        ([], [1]),
        ([(1, 131_071)], []),
        ([(16_384, 0)], []),
        ([(2048, 1_000_000)], [1_000_000] * 1024),
        ([(1, 0)] * 2000, []),
        ([(0, 5)], [3]),
        ([], [1] * 4000),
        ([(8192, 100_000)], [1] + [131_072] * 300),
    ]
    for prefills, decodes in batches:
        seconds = step(profile, prefills, decodes)
        assert np.isfinite(seconds)
        assert 0 < seconds < 1e5
    assert step(profile) == 0
    assert step(profile, [(0, 100)]) == 0


def test_several_prefills_count_as_one_of_as_many_tokens_and_pairs() -> None:
    profile = hardware.get("rtx4090-tp1-llama3.1-8b")
    alike = step(profile, [(256, 896)] * 2)  # 2 x 256 x (896 + 128) pairs = 512 x (768 + 256)
    head = profile.timing.head[2] - profile.timing.head[1]
    assert alike == pytest.approx(step(profile, [(512, 768)]) + head)
    assert step(profile, [(256, 0)] * 4) < step(profile, [(1024, 0)])


def test_one_long_decode_among_short_ones_costs_more_than_even_ones() -> None:
    profile = hardware.get("rtx4090-tp1-llama3.1-8b")
    even, uneven = [1000] * 16, [200] * 15 + [13_000]
    assert step(profile, None, uneven) > step(profile, None, even)
    assert step(profile, [(256, 0)], uneven) > step(profile, [(256, 0)], even)


def test_mixed_batches_cost_more_than_their_parts() -> None:
    profile = hardware.get("rtx4090-tp1-llama3.1-8b")
    apart = hardware.with_mixed_penalty(profile, 0.0)
    batch = ([(512, 2048)], [1024] * 32)
    assert step(profile, *batch) > step(apart, *batch) + 4e-3
    assert step(hardware.with_mixed_penalty(profile, 1.0), *batch) == pytest.approx(step(profile, *batch))
    assert step(apart, [(512, 2048)]) == step(profile, [(512, 2048)])
    assert step(apart, None, [1024] * 32) == step(profile, None, [1024] * 32)


@compiled
def _repeat(timing: Timing, tokens: np.ndarray, cached: np.ndarray, decodes: np.ndarray, times: int) -> float:
    total = 0.0
    for _ in range(times):
        total += batch_seconds(timing, tokens, cached, decodes)
    return total


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("name", ["rtx3090-tp2-llama3.1-8b", "rtxpro6000-tp1-llama3.1-8b"])
def test_a_batch_of_64_decodes_and_2_prefills_costs_microseconds(name: str) -> None:
    batch = (np.array([200, 100]), np.array([1000, 0]), np.arange(64) * 30)
    timing = hardware.get(name).timing
    _repeat(timing, *batch, 1)
    assert min(_clock(timing, batch) for _ in range(20)) < 3e-6


def _clock(timing: Timing, batch: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """Processor time of one call: a busy machine does not count."""
    start = time.process_time()
    _repeat(timing, *batch, 2_000)
    return (time.process_time() - start) / 2_000
