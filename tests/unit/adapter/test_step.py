"""Decisions carried out on a stand-in for vLLM's scheduler: orders, limits, and everything put back."""

from __future__ import annotations

import time
from types import SimpleNamespace as Fake

import pytest
from slidingserve.predictor.features import batch_features
from slidingserve.vllm_adapter.step import UNLIMITED, Step

from tests.unit.adapter.fakes import Scheduler, decision, decode, ids, late, request, scheduler, view


def applied(
    engine: Scheduler, tokens: dict[str, int], order: list[str], relegated: frozenset[str] = frozenset()
) -> Step:
    step, seen = Step(), view(engine)
    step.apply(engine, seen, decision(seen, tokens, order, relegated))
    return step


def test_a_plan_sets_order_budget_caps_and_admissions() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b"), request("c")])
    step = applied(engine, {"d": 1, "c": 70, "p": 9}, ["c", "p", "a", "b"])
    assert ids(engine.running) == ["d", "p"], "decodes first, so that they are preempted last"
    assert ids(engine.waiting) == ["c", "a", "b"]
    assert engine.max_num_scheduled_tokens == 80
    assert engine.max_num_active_reqs == 3, "two running and one admission"
    assert step.tokens == {"d": 1, "p": 9, "c": 70}


def test_skipped_decodes_and_held_prefills_stand_where_vllm_preempts_first() -> None:
    running = [decode("skipped"), request("held", computed=50), request("gone", computed=50)]
    running += [request("served", computed=50), decode("runs")]
    engine = scheduler(running, [])
    step = applied(engine, {"runs": 1, "served": 9}, ["gone", "served", "held"], frozenset({"gone"}))
    assert ids(engine.running) == ["runs", "served", "skipped", "held", "gone"]
    assert step.tokens == {"runs": 1, "served": 9}, "the others get none in this step"
    assert engine.max_num_scheduled_tokens == 10
    step.restore(engine)
    assert ids(engine.running) == ["skipped", "held", "gone", "served", "runs"]


def test_everything_is_put_back_around_an_admission() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b"), request("c")])
    step = applied(engine, {"d": 1, "b": 9}, ["b", "p", "a", "c"])
    engine.running.append(engine.waiting.popleft())
    step.restore(engine)
    assert ids(engine.running) == ["p", "d", "b"]
    assert ids(engine.waiting) == ["a", "c"]
    assert (engine.max_num_scheduled_tokens, engine.max_num_active_reqs) == (512, 8)
    assert step.tokens is None


def test_everything_is_put_back_around_an_admission_that_vllm_refused() -> None:
    engine = scheduler([decode("d")], [request("a"), request("b"), request("c")])
    step = applied(engine, {"d": 1, "c": 70, "b": 9}, ["c", "b", "a"])
    engine.running.append(engine.waiting.popleft())  # c is admitted, b is not
    step.restore(engine)
    assert ids(engine.running) == ["d", "c"]
    assert ids(engine.waiting) == ["a", "b"]


def test_everything_is_put_back_around_a_preemption() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b"), request("c")])
    step = applied(engine, {"d": 1, "c": 70, "b": 9}, ["c", "b", "p", "a"])
    engine.waiting.appendleft(engine.running.pop())
    step.restore(engine)
    assert ids(engine.running) == ["d"]
    assert ids(engine.waiting) == ["p", "a", "b", "c"]


def test_an_empty_step_changes_nothing() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("b"), request("a")])
    Step().restore(engine)
    assert (ids(engine.running), ids(engine.waiting)) == (["p", "d"], ["b", "a"])


def test_a_plan_that_would_never_do_anything_is_refused_untouched() -> None:
    engine = scheduler([], [request("a")])
    with pytest.raises(ValueError, match="computes nothing"):
        applied(engine, {}, ["a"])
    assert engine.max_num_scheduled_tokens == 512


def test_a_plan_never_raises_the_engines_own_limits() -> None:
    engine = scheduler([], [request("a", tokens=9000)])
    applied(engine, {"a": 9000}, ["a"])
    assert engine.max_num_scheduled_tokens == 512
    assert engine.max_num_active_reqs == 1


def test_a_step_that_fails_half_way_is_undone() -> None:
    engine = scheduler([request("p", computed=50), decode("d")], [request("a"), request("b")])
    step, seen = Step(), view(engine)
    broken = decision(seen, {"d": 1, "b": 9}, ["b", "p", "a"])._replace(budget=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        step.apply(engine, seen, broken)
    step.restore(engine)
    assert (ids(engine.running), ids(engine.waiting)) == (["p", "d"], ["a", "b"])
    assert (engine.max_num_scheduled_tokens, engine.max_num_active_reqs) == (512, 8)


def test_a_session_that_goes_on_is_never_capped() -> None:
    engine = scheduler([decode("d")], [request("new")])
    engine.kv_holding_waiting.append(request("on", computed=60))
    step = applied(engine, {"d": 1, "new": 9}, ["new", "on"])
    assert step.tokens == {"d": 1, "new": 9, "on": UNLIMITED}


def test_a_request_that_ends_by_itself_keeps_its_place_in_front() -> None:
    ending = request("e", computed=100, num_output_placeholders=1, max_tokens=1)
    engine = scheduler([decode("d"), ending, request("p", computed=9)], [])
    step = applied(engine, {"d": 1, "p": 9}, ["p"])
    assert ids(engine.running) == ["e", "d", "p"]
    step.restore(engine)
    assert ids(engine.running) == ["d", "e", "p"]


def test_a_lost_prefill_makes_way_for_a_slot() -> None:
    engine = scheduler([late("lost"), decode("d")], [request("a"), request("b")], max_num_active_reqs=3)
    step = applied(engine, {"d": 1, "a": 50, "b": 50}, ["a", "b", "lost"])
    assert engine.preempted == ["lost"]
    assert ids(engine.running) == ["d"]
    assert ids(engine.waiting) == ["a", "b", "lost"], "it waits behind those that it made way for"
    assert engine.max_num_active_reqs == 3
    engine.running += [engine.waiting.popleft(), engine.waiting.popleft()]
    step.restore(engine)
    assert (ids(engine.running), ids(engine.waiting)) == (["d", "a", "b"], ["lost"])
    assert engine.max_num_active_reqs == 3


def test_a_lost_prefill_makes_way_for_kv_blocks_though_it_was_to_run_on_what_is_left() -> None:
    engine = scheduler([late("lost", computed=64)], [request("a", tokens=100)], free_blocks=4)
    step = applied(engine, {"a": 100, "lost": 36}, ["a", "lost"])
    assert engine.preempted == ["lost"]
    assert step.tokens == {"a": 100}


def test_no_lost_prefill_is_preempted_while_there_is_room_or_if_it_ranks_first() -> None:
    roomy = scheduler([late("lost")], [request("a")], free_blocks=100)
    applied(roomy, {"a": 100, "lost": 40}, ["a", "lost"])
    assert roomy.preempted == []
    first = scheduler([late("lost")], [request("a")], max_num_active_reqs=1)
    applied(first, {"a": 50, "lost": 40}, ["lost", "a"])
    assert first.preempted == [], "this policy serves it before the other one"
    assert first.max_num_active_reqs == 1


def test_only_as_many_make_way_as_are_in_the_way_those_that_rank_last_first() -> None:
    running = [late(name) for name in ("x", "y", "z")]
    engine = scheduler(running, [request("a")], max_num_active_reqs=3, free_blocks=100)
    applied(engine, {"a": 50}, ["a", "y", "z", "x"])
    assert engine.preempted == ["x"]
    assert ids(engine.running) == ["y", "z"]


def test_no_more_adapters_are_admitted_than_the_engine_holds() -> None:
    waiting = [request(f"w{n}", lora_request=Fake(lora_int_id=n)) for n in (1, 2, 3)]
    engine = scheduler([decode("d")], waiting, lora_config=Fake(max_loras=2))
    applied(engine, {"d": 1, "w1": 9, "w2": 9, "w3": 9}, ["w1", "w2", "w3"])
    assert engine.max_num_active_reqs == 3


def test_a_batch_that_was_made_as_decided_has_the_features_of_the_decision() -> None:
    engine = scheduler([decode("d"), request("p", computed=50)], [request("a")])
    step = applied(engine, {"d": 1, "p": 30, "a": 20}, ["p", "a"])
    engine.running.append(engine.waiting.popleft())
    engine.running[-1].num_computed_tokens = 48 + 20  # the prefix cache had 48 of its tokens
    step.restore(engine)
    assert step.features({"p": 30, "d": 1, "a": 20}) == batch_features([100], [(30, 50), (20, 48)])
    assert step.features({"p": 30, "d": 1}) is None, "vLLM made another batch"
    assert Step().features({"p": 30}) is None


def test_a_long_queue_costs_little() -> None:
    engine = scheduler([decode("d")], [request(f"q{number}") for number in range(2000)])
    seen = view(engine)
    made = decision(seen, {"d": 1, "q7": 9}, ids(seen.requests[1:]))
    begin = time.thread_time()
    step = Step()
    step.apply(engine, seen, made)
    engine.running.append(engine.waiting.popleft())
    step.restore(engine)
    assert time.thread_time() - begin < 0.1
    assert ids(engine.waiting) == [f"q{number}" for number in range(2000) if number != 7]
