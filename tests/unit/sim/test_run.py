"""Runs of the simulated engine: what must hold of every run, whatever the policy."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from slidingserve import sim
from slidingserve.policies.dispatch import NAMES
from slidingserve.sim import PredictorConfig, Result, SimError

from tests.unit.sim.engines import busy, engine, hardware, limits, trace

ASYNC = pytest.mark.parametrize("asynchronous", [False, True])
POLICIES = pytest.mark.parametrize("policy", NAMES)


def record(result: Result) -> list[bytes]:
    assert result.steps is not None
    columns = [getattr(result.steps, field.name) for field in fields(result.steps)]
    return [array.tobytes() for array in (result.times, result.preempted, result.relegated, *columns)]


@POLICIES
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(policy: str) -> None:
    of = busy(60)
    noisy = engine(policy, noise=0.05, predictor=PredictorConfig(refresh_seconds=5.0))
    one, two, other = (sim.run(of, *limits(of), noisy, seed, steps=True) for seed in (7, 7, 8))
    assert record(one) == record(two)
    assert record(one) != record(other)


@POLICIES
@ASYNC
def test_every_token_is_delivered_once_at_the_end_of_a_step(policy: str, asynchronous: bool) -> None:
    of = busy(120)
    result = sim.run(of, *limits(of), engine(policy, async_scheduling=asynchronous), steps=True)
    assert result.steps is not None
    assert len(result.times) == of.output_tokens.sum()
    assert np.isin(result.times, result.steps.start + result.steps.seconds).all()
    gaps = result.gaps(np.ones(len(of), bool))
    assert (gaps > 0).all()
    assert (result.first > of.arrival).all()


@POLICIES
@ASYNC
def test_every_prompt_token_is_computed_once_without_preemption(policy: str, asynchronous: bool) -> None:
    of = busy(120)
    result = sim.run(of, *limits(of), engine(policy, async_scheduling=asynchronous), steps=True)
    assert result.steps is not None
    assert result.counters.preemptions == 0
    decodes = of.output_tokens.sum() - len(of)
    assert result.steps.decodes.sum() == decodes
    assert result.steps.tokens.sum() == of.prompt_tokens.sum() + decodes
    assert result.steps.tokens.max() <= 2048


def test_steps_never_overlap() -> None:
    of = busy(120)
    for asynchronous in (False, True):
        steps = sim.run(of, *limits(of), engine(async_scheduling=asynchronous), steps=True).steps
        assert steps is not None
        assert (steps.start[1:] >= (steps.start + steps.seconds)[:-1]).all()


def test_a_request_that_comes_during_a_step_waits_for_the_next_and_with_async_for_the_one_after() -> None:
    # The first request's steps take 30 ms each; the second comes in the middle of one of them.
    of = trace([0.0, 0.045], 16, [10, 1])
    steady = engine(hardware=hardware(step=0.03, token=0.0))
    sync = sim.run(of, *limits(of), steady)
    late = sim.run(of, *limits(of), replace(steady, async_scheduling=True))
    assert sync.first[1] == pytest.approx(0.09)
    assert late.first[1] == pytest.approx(0.12)


def test_deadlines_are_those_of_equation_1_and_no_late_token_moves_them() -> None:
    of = trace([0.0], 16, 4)
    tokens = np.array([0.03, 0.06, 0.09, 0.12])
    steady = engine(hardware=hardware(step=0.03, token=0.0))
    for ttft, tbt, late in ((0.1, 0.001, [0, 0, 0, 1]), (0.001, 0.001, [1] * 4), (0.001, 0.1, [1, 0, 0, 0])):
        result = sim.run(of, np.array([ttft]), np.array([tbt]), steady)
        assert result.times == pytest.approx(tokens)
        assert bool(result.missed_ttft[0]) == bool(late[0])
        assert int(result.late_tokens[0]) == sum(late[1:])
        assert bool(result.missed[0]) == (sum(late) > 0)


def test_the_predictor_learns_the_hardware_from_noisy_batches_alone() -> None:
    of = busy(300)
    learning = engine(noise=0.02, predictor=PredictorConfig(refresh_seconds=10.0))
    quality = sim.run(of, *limits(of), learning).quality["overall"]
    assert quality.r2 > 0.97
    assert quality.mae_share < 0.04


def test_a_prompt_that_no_cache_could_hold_is_refused_in_one_sentence() -> None:
    of = trace([0.0, 1.0], [16, 5000], 16)
    with pytest.raises(SimError, match=r"request 1: 5000 prompt and 16 output .* 4784 tokens"):
        sim.run(of, *limits(of), engine(kv_tokens=4800))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy": "best"}, "policy: 'best' is unknown"),
        ({"max_tokens": 0}, "max_tokens: 0 is too small"),
        ({"max_requests": 0}, "max_requests: 0 is too small"),
        ({"kv_tokens": 16}, "kv_tokens: 16 is too small"),
        ({"noise": -0.1}, "noise: -0.1 is no sigma"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SimError, match=words):
        replace(engine(), **changes)  # type: ignore[arg-type]
