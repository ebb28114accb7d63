"""Plans carried out on a stand-in for vLLM's scheduler: orders, limits, and everything put back."""

from __future__ import annotations

import time
from collections import deque
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Phase, Snapshot
from slidingserve.predictor.features import batch_features
from slidingserve.vllm_adapter.held import held
from slidingserve.vllm_adapter.step import Step, observe

DEFAULT = (1.0, 0.1, False)


def request(name: str, *, tokens: int = 100, computed: int = 0, outputs: int = 0, **more: Any) -> Fake:
    promise = {"class": "a", "ttft_s": 0.5, "tbt_s": 0.04, "safeguard": False, "arrival": time.time()}
    fields: dict[str, Any] = {
        "request_id": name,
        "num_tokens": tokens + outputs,
        "num_prompt_tokens": tokens,
        "num_computed_tokens": computed,
        "num_output_tokens": outputs,
        "num_output_placeholders": 0,
        "arrival_time": time.time(),
        "status": Fake(name="WAITING"),
        "sampling_params": Fake(extra_args={"slidingserve": promise}),
    }
    return Fake(**{**fields, **more})


def decode(name: str) -> Fake:
    return request(name, computed=100, outputs=1)


class Scheduler(Fake):
    def _handle_blocked_waiting_request(self, blocked: Fake) -> bool:
        self.asked.append(blocked.request_id)
        blocked.status = Fake(name="WAITING")
        return True


def scheduler(running: list[Fake], waiting: list[Fake]) -> Scheduler:
    return Scheduler(
        running=running,
        waiting=deque(waiting),
        kv_holding_waiting=deque(),
        num_waiting_for_streaming_input=0,
        max_num_scheduled_tokens=512,
        max_num_active_reqs=8,
        block_size=16,
        kv_cache_manager=Fake(block_pool=Fake(get_num_free_blocks=lambda: 10)),
        asked=[],
    )


def view(engine: Scheduler) -> Snapshot:
    return observe(engine, time.monotonic(), 0.0, lambda prompt: DEFAULT)


def plan(tokens: dict[str, int], order: list[str]) -> Plan:
    features = batch_features([], [(1, 0)])
    return Plan("chunker", sum(tokens.values()), tokens, order, 0.1, features)


def ids(requests: Any) -> list[str]:
    return [one.request_id for one in requests]


def test_a_snapshot_knows_phases_room_and_progress() -> None:
    half = request("half", computed=60)
    preempted = request("back", outputs=5, status=Fake(name="PREEMPTED"))
    snapshot = view(scheduler([decode("d"), half], [request("new"), preempted]))
    assert snapshot.ids == ["d", "half", "new", "back"]
    assert snapshot.phase.tolist() == [Phase.DECODE, Phase.PREFILL, Phase.WAITING, Phase.WAITING]
    assert snapshot.remaining.tolist() == [1, 40, 100, 105]
    assert snapshot.output_tokens.tolist() == [1, 0, 0, 5]
    assert (snapshot.max_tokens, snapshot.max_admissions, snapshot.free_kv_tokens) == (512, 6, 160)


def test_the_last_token_of_a_prompt_is_still_a_prefill() -> None:
    assert view(scheduler([request("last", computed=99)], [])).phase.tolist() == [Phase.PREFILL]


def test_work_in_flight_counts_as_done() -> None:
    flying = request("f", computed=100, num_output_placeholders=1)
    snapshot = view(scheduler([flying], []))
    assert snapshot.phase.tolist() == [Phase.DECODE]
    assert snapshot.output_tokens.tolist() == [1]


def test_requests_that_wait_for_something_else_are_left_out_but_looked_after() -> None:
    remote = request("remote", status=Fake(name="WAITING_FOR_REMOTE_KVS"))
    grammar = request("grammar", status=Fake(name="WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"))
    engine = scheduler([], [remote, grammar])
    assert view(engine).ids == ["grammar"]
    assert engine.asked == ["grammar"]


def test_a_plan_sets_order_budget_caps_and_admissions() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b"), request("c")])
    step = Step()
    step.apply(engine, view(engine), plan({"d": 1, "c": 70, "p": 9}, ["c", "p", "a", "b"]))
    assert ids(engine.running) == ["d", "p"], "decodes first, so that they are preempted last"
    assert ids(engine.waiting) == ["c", "a", "b"]
    assert engine.max_num_scheduled_tokens == 80
    assert engine.max_num_active_reqs == 3, "two running and one admission"
    assert step.caps == {"p": 9, "a": 0, "b": 0, "c": 70}, "decodes are never capped"


def test_everything_is_put_back_around_what_vllm_did_meanwhile() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b"), request("c")])
    step = Step()
    step.apply(engine, view(engine), plan({"d": 1, "c": 70, "b": 9}, ["c", "b", "p", "a"]))
    engine.running.append(engine.waiting.popleft())  # c is admitted, b is not
    victim = next(one for one in engine.running if one.request_id == "p")
    engine.running.remove(victim)
    engine.waiting.appendleft(victim)  # p is preempted
    step.restore(engine)
    assert ids(engine.running) == ["d", "c"]
    assert ids(engine.waiting) == ["p", "a", "b"]
    assert (engine.max_num_scheduled_tokens, engine.max_num_active_reqs) == (512, 8)
    assert step.caps is None


def test_an_empty_step_changes_nothing() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("b"), request("a")])
    Step().restore(engine)
    assert (ids(engine.running), ids(engine.waiting)) == (["p", "d"], ["b", "a"])


def test_a_plan_that_would_never_do_anything_is_refused_untouched() -> None:
    engine = scheduler([], [request("a")])
    with pytest.raises(ValueError, match="computes nothing"):
        Step().apply(engine, view(engine), plan({}, ["a"]))
    assert engine.max_num_scheduled_tokens == 512


def test_a_plan_never_raises_the_engines_own_limits() -> None:
    engine = scheduler([], [request("a", tokens=9000)])
    Step().apply(engine, view(engine), plan({"a": 9000}, ["a"]))
    assert engine.max_num_scheduled_tokens == 512


@pytest.mark.parametrize(
    "extra",
    [
        None,
        {},
        {"slidingserve": "x"},
        {"slidingserve": {}},
        {"slidingserve": {"ttft_s": "0.5", "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": float("nan"), "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": True, "tbt_s": 0.04}},
        {"slidingserve": {"ttft_s": 0.5, "tbt_s": -1}},
    ],
)
def test_missing_or_odd_metadata_gives_the_default_promise(extra: Any) -> None:
    odd = request("odd", sampling_params=Fake(extra_args=extra))
    promise = held(odd, lambda prompt: DEFAULT)
    assert (promise.ttft, promise.tbt, promise.safeguard) == DEFAULT


def test_a_request_without_sampling_parameters_has_the_default_promise() -> None:
    assert held(request("pool", sampling_params=None), lambda prompt: DEFAULT).ttft == 1.0


def test_arrival_is_converted_once_and_never_lies_in_the_future() -> None:
    early = request("early")
    early.sampling_params.extra_args["slidingserve"]["arrival"] = time.time() - 5
    first = held(early, lambda prompt: DEFAULT)
    assert time.monotonic() - first.arrival == pytest.approx(5, abs=0.5)
    assert held(early, lambda prompt: DEFAULT) is first
    late = request("late")
    late.sampling_params.extra_args["slidingserve"]["arrival"] = time.time() + 500
    assert held(late, lambda prompt: DEFAULT).arrival <= time.monotonic()


def test_new_sampling_parameters_of_a_streaming_session_are_read_anew() -> None:
    session = request("s")
    assert held(session, lambda prompt: DEFAULT).ttft == 0.5
    session.sampling_params = Fake(extra_args={"slidingserve": {"ttft_s": 9.0, "tbt_s": 0.04}})
    assert held(session, lambda prompt: DEFAULT).ttft == 9.0


def test_a_step_that_fails_half_way_is_undone() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b")])
    step = Step()
    broken = plan({"d": 1, "b": 9}, ["b", "p", "a"])
    object.__setattr__(broken, "budget", None)
    with pytest.raises(TypeError):
        step.apply(engine, view(engine), broken)
    step.restore(engine)
    assert (ids(engine.running), ids(engine.waiting)) == (["p", "d"], ["a", "b"])
    assert (engine.max_num_scheduled_tokens, engine.max_num_active_reqs) == (512, 8)


def test_a_session_that_goes_on_is_planned_as_running_and_never_capped() -> None:
    engine = scheduler([decode("d")], [request("new")])
    paused = request("paused", computed=60, status=Fake(name="WAITING_FOR_STREAMING_REQ"))
    engine.kv_holding_waiting.extend([paused, request("on", computed=60)])
    engine.num_waiting_for_streaming_input = 1
    snapshot = view(engine)
    assert snapshot.ids == ["d", "on", "new"]
    assert snapshot.phase.tolist() == [Phase.DECODE, Phase.PREFILL, Phase.WAITING]
    assert snapshot.max_admissions == 5, "one decodes, one goes on, one is paused"
    step = Step()
    step.apply(engine, snapshot, plan({"d": 1, "new": 9}, ["new", "on"]))
    assert step.caps == {"new": 9}
    step.restore(engine)
