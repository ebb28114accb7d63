"""What every policy keeps to, whatever the state, the predictor and the options, the literal ones too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve import policies
from slidingserve.core.columns import BRANCHES, REASONS, Decision
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Snapshot
from slidingserve.policies import PolicySettings
from slidingserve.policies.dispatch import NAMES, decide
from slidingserve.policies.fcfs import plan as fcfs
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import models, settings, snapshots, state, waiting

signed = st.builds(Weights, st.floats(-0.05, 0.05), st.tuples(*[st.floats(-1e-4, 1e-4)] * 7))
any_model = st.one_of(models, st.builds(LatencyModel, signed))
every_policy = pytest.mark.parametrize("policy", NAMES)


def decision(policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings) -> Decision:
    return decide(policies.policy_id(policy), snapshot.columns, model.matrix, chosen.compiled())


@every_policy
@given(snapshot=snapshots(), model=any_model, chosen=settings)
def test_a_plan_never_exceeds_the_batch_the_requests_or_the_cache(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = decision(policy, snapshot, model, chosen)
    tokens, decodes = made.tokens, snapshot.is_decode
    assert (tokens >= 0).all()
    assert (tokens <= snapshot.remaining).all(), "a decode's remaining is 1"
    assert tokens.sum() == made.budget <= snapshot.max_tokens
    prefilled = int(tokens[~decodes].sum())
    if chosen.budget is not None:
        assert prefilled == 0 or made.budget <= chosen.budget
    admitted = (snapshot.phase == Phase.WAITING) & (tokens > 0)
    assert admitted.sum() <= snapshot.max_admissions
    if policy == "fcfs":
        return  # vLLM's own order: a shortage of cache is the engine's business
    if chosen.max_chunk is not None:
        assert prefilled <= chosen.max_chunk
    running = int(tokens[decodes].sum())
    if prefilled > max(snapshot.free_kv_tokens - running, 0):
        assert (tokens > 0).sum() == 1
        assert not decodes.any(), "the hint is only ignored when nothing else could run"
    elif admitted.any():
        held = (snapshot.phase == Phase.PREFILL) | admitted
        assert snapshot.remaining[held].sum() + running <= snapshot.free_kv_tokens or held.sum() == 1


@every_policy
@given(snapshot=snapshots(), model=any_model, chosen=settings)
def test_decodes_come_first_one_token_each(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = decision(policy, snapshot, model, chosen)
    served = int(made.tokens[snapshot.is_decode].sum())
    if policy == "fcfs":
        return  # running requests in the engine's order, prefills among them
    assert served == min(int(snapshot.is_decode.sum()), snapshot.max_tokens)


@every_policy
@given(snapshot=snapshots(), model=any_model, chosen=settings)
def test_the_same_input_gives_the_same_decision(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    one = decision(policy, snapshot, model, chosen)
    other = decision(policy, Snapshot.from_json(snapshot.to_json()), model, chosen)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@every_policy
@given(snapshot=snapshots(), model=any_model, chosen=settings)
def test_the_engine_always_has_something_to_do_if_anything_may_run(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    may_run = (snapshot.phase != Phase.WAITING).any() or (len(snapshot) and snapshot.max_admissions)
    assert bool(decision(policy, snapshot, model, chosen).tokens.any()) == bool(may_run)


def relegates(policy: str, chosen: PolicySettings) -> bool:
    return policy == "qoserve" or (policy == "slidingserve_paper" and chosen.overload == "relegate")


@every_policy
@given(snapshot=snapshots(), model=any_model, chosen=settings)
def test_a_decision_says_its_order_its_time_and_its_reason(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    made = decision(policy, snapshot, model, chosen)
    assert sorted(made.order.tolist()) == np.flatnonzero(~snapshot.is_decode).tolist()
    assert made.seconds > 0
    assert BRANCHES[made.branch]
    assert REASONS[made.reason]
    assert made.relegated[snapshot.relegated].all(), "a relegation is for good"
    if not relegates(policy, chosen):
        np.testing.assert_array_equal(made.relegated, snapshot.relegated)


@every_policy
@given(snapshot=snapshots(), model=models, chosen=settings)
def test_in_the_engine_a_policy_makes_the_plan_of_its_decision(
    policy: str, snapshot: Snapshot, model: LatencyModel, chosen: PolicySettings
) -> None:
    plan: Plan | None = policies.get(policy).plan(snapshot, model, chosen)
    if policy == "fcfs":
        assert plan is None, "left to vLLM"
        return
    assert plan is not None
    made = decision(policy, snapshot, model, chosen)
    ids = snapshot.ids
    assert plan.tokens == {ids[row]: int(made.tokens[row]) for row in np.flatnonzero(made.tokens)}
    assert plan.order == [ids[row] for row in made.order]
    fresh = made.relegated & ~snapshot.relegated
    assert plan.relegated == [ids[row] for row in np.flatnonzero(fresh)]
    assert (plan.branch, plan.budget) == (BRANCHES[made.branch], made.budget)


def test_every_policy_has_an_id_and_a_name() -> None:
    assert [policies.policy_id(name) for name in NAMES] == list(range(len(NAMES)))
    assert sorted(NAMES) == policies.names()


def test_the_compiled_code_is_the_code_as_it_is_read() -> None:
    """With NUMBA_DISABLE_JIT=1 everything runs as plain Python; here one policy, undecorated."""
    plain = getattr(fcfs, "py_func", fcfs)
    snapshot = state(waiting("w", 50))
    chosen = PolicySettings().compiled()
    matrix = LatencyModel(Weights(0.01, (0.0,) * 7)).matrix
    assert plain(snapshot.columns, matrix, chosen).tokens.tolist() == [50]
