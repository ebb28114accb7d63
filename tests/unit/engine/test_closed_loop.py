"""The policy in a tiny engine: batches take time, the cache fills up, requests are preempted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve import policies
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.policies import PolicySettings
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.states import MODEL


@dataclass
class Request:
    name: str
    arrival: float
    prompt: int
    output: int
    ttft: float
    tbt: float
    phase: Phase = Phase.WAITING
    computed: int = 0
    late: list[int] = field(default_factory=list)
    delivered: int = 0

    @property
    def prefill_tokens(self) -> int:
        return self.prompt + self.delivered

    def row(self) -> Row:
        counts = (self.prefill_tokens, self.computed, self.delivered)
        return Row(self.name, self.phase, self.arrival, *counts, self.ttft, self.tbt)


@dataclass
class TinyEngine:
    requests: list[Request]
    model: LatencyModel = MODEL
    believed: LatencyModel = MODEL
    cache: int = 20_000
    max_requests: int = 8
    max_tokens: int = 512
    chosen: PolicySettings = field(default_factory=PolicySettings)
    now: float = 0.0
    steps: int = 0
    lost_by_chunks: int = 0

    def present(self) -> list[Request]:
        return [r for r in self.requests if r.arrival <= self.now and r.delivered < r.output]

    def free(self) -> int:
        return self.cache - sum(r.computed for r in self.present())

    def run(self, most_steps: int) -> None:
        while any(r.delivered < r.output for r in self.requests):
            present = self.present()
            if not present:
                self.now = min(r.arrival for r in self.requests if r.delivered < r.output)
                continue
            assert self.steps < most_steps, "somebody starves"
            running = sum(r.phase != Phase.WAITING for r in present)
            snapshot = Snapshot.from_rows(
                [r.row() for r in present],
                now=self.now,
                max_tokens=self.max_tokens,
                max_admissions=self.max_requests - running,
                free_kv_tokens=max(self.free(), 0),
                throughput=3000.0,
            )
            plan = policies.get("slidingserve_paper").plan(snapshot, self.believed, self.chosen)
            assert plan is not None
            assert plan.tokens, "work is there and nothing is done"
            self.execute(plan, {r.name: r for r in present})
            self.steps += 1

    def execute(self, plan: Plan, by_name: dict[str, Request]) -> None:
        taken = self.model.predict(plan.predicted_features)
        self.now += taken
        for name, count in plan.tokens.items():
            request = by_name[name]
            was_decode = request.phase == Phase.DECODE
            request.phase, request.computed = Phase.PREFILL, request.computed + count
            if was_decode or request.computed == request.prefill_tokens:
                request.phase = Phase.DECODE
                self.deliver(request, was_decode, taken, plan)
        running = [r for r in by_name.values() if r.phase != Phase.WAITING and r.delivered < r.output]
        while self.free() < 0 and len(running) > 1:
            victim = running.pop()
            victim.phase, victim.computed = Phase.WAITING, 0

    def deliver(self, request: Request, was_decode: bool, taken: float, plan: Plan) -> None:
        deadline = request.arrival + request.ttft + request.delivered * request.tbt
        if self.now > deadline + 1e-9:
            request.late.append(request.delivered)
            features = plan.predicted_features
            decode_only = features._replace(
                prefill_attention=0, chunk_attention=0, prefill_tokens=0, largest_chunk=0,
                cached_tokens=features.decode_context,
            )  # fmt: skip
            started = self.now - taken
            could_make_it = started + self.model.predict(decode_only) <= deadline
            if was_decode and could_make_it and started < deadline:
                self.lost_by_chunks += 1
        request.delivered += 1


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


@pytest.mark.parametrize("late", ["last", "paper_equation"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nobody_starves_under_any_finite_load(late: str, data: st.DataObject) -> None:
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
        chosen=PolicySettings(late=late, alpha=data.draw(st.floats(0, 2))),  # type: ignore[arg-type]
    )
    engine.run(200_000)
