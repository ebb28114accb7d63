"""A tiny engine for policies: batches take time, the cache fills up, requests are preempted. No vLLM, no
noise."""

from __future__ import annotations

from dataclasses import dataclass, field

from slidingserve import policies
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.policies import Policy, PolicySettings
from slidingserve.predictor.model import LatencyModel, Predictor

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
    relegated: bool = False

    @property
    def prefill_tokens(self) -> int:
        return self.prompt + self.delivered

    def row(self) -> Row:
        counts = (self.prefill_tokens, self.computed, self.delivered)
        return Row(
            self.name, self.phase, self.arrival, *counts, self.ttft, self.tbt, relegated=self.relegated
        )


@dataclass
class TinyEngine:
    requests: list[Request]
    model: Predictor = MODEL
    believed: LatencyModel = MODEL
    cache: int = 20_000
    max_requests: int = 8
    max_tokens: int = 512
    chosen: PolicySettings = field(default_factory=PolicySettings)
    policy: Policy = field(default_factory=lambda: policies.get("slidingserve_paper"))
    now: float = 0.0
    steps: int = 0
    lost_by_chunks: int = 0

    def present(self) -> list[Request]:
        here = [r for r in self.requests if r.arrival <= self.now and r.delivered < r.output]
        return sorted(here, key=lambda r: r.phase == Phase.WAITING)

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
            plan = self.policy.plan(snapshot, self.believed, self.chosen)
            assert plan is not None
            assert plan.tokens, "work is there and nothing is done"
            self.execute(plan, {r.name: r for r in present})
            self.steps += 1

    def execute(self, plan: Plan, by_name: dict[str, Request]) -> None:
        taken = self.model.predict(plan.predicted_features)
        self.now += taken
        for name in plan.relegated:
            by_name[name].relegated = True
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
