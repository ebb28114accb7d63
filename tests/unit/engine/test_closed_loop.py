"""The policy in a closed loop: what it plans happens, and comes back as the next snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve import policies
from slidingserve.policies import Policy, PolicySettings, fcfs
from slidingserve.policies.adapt import CompiledPolicy
from slidingserve.policies.dispatch import NAMES
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import MODEL, state, waiting
from tests.unit.engine.states import settings as every_setting
from tests.unit.engine.tiny_engine import Request, TinyEngine


def requests(count: int, gap: float, *, tbt: float = 0.05) -> list[Request]:
    sizes = [(400 * (1 + i * 7 % 5), 40 * (1 + i % 3)) for i in range(count)]
    return [Request(f"r{i}", i * gap, p, o, 1.5, tbt) for i, (p, o) in enumerate(sizes)]


def test_under_moderate_load_every_token_is_on_time() -> None:
    engine = TinyEngine(requests(40, 0.6))
    engine.run(5000)
    assert [r.name for r in engine.requests if r.late] == []


@pytest.mark.parametrize("tbt", [0.05, 0.0115])
def test_no_decode_is_lost_to_a_chunk_even_under_overload(tbt: float) -> None:
    engine = TinyEngine(requests(60, 0.05, tbt=tbt))
    engine.run(20_000)
    assert any(r.late for r in engine.requests), "the load must be an overload"
    assert engine.lost_by_chunks == 0


def test_the_smallest_chunk_by_force_loses_decodes_where_a_step_takes_as_long_as_the_limit() -> None:
    forced = PolicySettings(tight="min_chunk")
    engine = TinyEngine(requests(60, 0.05, tbt=0.0115), chosen=forced)
    engine.run(20_000)
    assert engine.lost_by_chunks > 0


def test_a_predictor_that_is_far_too_slow_delays_but_starves_nobody() -> None:
    slow = LatencyModel(Weights(0.5, MODEL.everywhere.slopes))
    engine = TinyEngine(requests(20, 0.1), believed=slow)
    engine.run(20_000)


def test_a_cache_that_holds_one_request_at_a_time_starves_nobody() -> None:
    engine = TinyEngine(requests(12, 0.01), cache=2600)
    engine.run(20_000)


def policy_of(name: str) -> Policy:
    """As the simulator has it: fcfs too plans its steps."""
    return CompiledPolicy("fcfs", fcfs.plan) if name == "fcfs" else policies.get(name)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nobody_starves_under_any_finite_load_whatever_the_options(name: str, data: st.DataObject) -> None:
    one = st.builds(
        Request,
        name=st.just(""),
        arrival=st.floats(0, 3),
        prompt=st.integers(1, 1500),
        output=st.integers(1, 40),
        ttft=st.floats(0.01, 3),
        tbt=st.floats(0.001, 0.2),
    )
    made = data.draw(st.lists(one, min_size=1, max_size=12))
    for i, request in enumerate(made):
        request.name = f"r{i}"
    engine = TinyEngine(
        made,
        cache=data.draw(st.integers(1600, 20_000)),
        max_requests=data.draw(st.integers(1, 12)),
        max_tokens=data.draw(st.integers(1, 600)),
        chosen=data.draw(every_setting),
        policy=policy_of(name),
    )
    engine.run(200_000)


def test_a_relegated_request_gives_way_and_is_served_in_the_end() -> None:
    hopeless = Request("hopeless", 0.0, 3000, 2, 0.05, 0.05)
    others = [Request(f"r{i}", i * 0.1, 400, 10, 2.0, 0.05) for i in range(10)]
    engine = TinyEngine([hopeless, *others], policy=policies.get("qoserve"))
    engine.run(2000)
    assert hopeless.relegated
    assert [r.name for r in engine.requests if r.late] == ["hopeless"]
    assert not any(r.relegated for r in others)


def test_requests_that_are_held_back_take_no_admissions_from_those_that_run() -> None:
    """One place is left: what stands first in order gets it, not what stands first in the queue."""
    rows = [waiting("late", 500, slack=-1.0), waiting("due", 500, slack=5.0)]
    for name in ("slidingserve_paper", "qoserve"):
        plan = policies.get(name).plan(state(*rows, max_admissions=1), MODEL, PolicySettings())
        assert plan is not None
        assert plan.tokens == {"due": 500}


def test_a_relegated_request_keeps_no_cache_from_others() -> None:
    rows = [waiting("out", 39_500, slack=9.0, relegated=True), waiting("in", 900, slack=9.0)]
    plan = policies.get("qoserve").plan(state(*rows, free_kv_tokens=40_000), MODEL, PolicySettings())
    assert plan is not None
    assert plan.tokens == {"in": 900}
