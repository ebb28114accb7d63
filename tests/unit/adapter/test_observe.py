"""vLLM's scheduler as columns: phases, progress, room, and who is left out."""

from __future__ import annotations

import time
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from slidingserve.core.rows import Phase

from tests.unit.adapter.fakes import decode, ids, late, request, scheduler, view


def test_columns_know_phases_room_and_progress() -> None:
    half = request("half", computed=60)
    preempted = request("back", outputs=5, status=Fake(name="PREEMPTED"))
    seen = view(scheduler([decode("d"), half], [request("new"), preempted]))
    columns = seen.columns
    assert ids(seen.requests) == ["d", "half", "new", "back"]
    assert columns.phase.tolist() == [Phase.DECODE, Phase.PREFILL, Phase.WAITING, Phase.WAITING]
    assert columns.remaining.tolist() == [1, 40, 100, 105]
    assert columns.cached.tolist() == [100, 60, 0, 0]
    assert (columns.max_tokens, columns.max_admissions, columns.free_kv_tokens) == (512, 6, 160)
    assert (seen.running, seen.started, seen.evictable) == (2, 2, [])


def test_slack_counts_from_arrival_over_the_tokens_delivered() -> None:
    engine = scheduler([decode("d", outputs=10, computed=109)], [request("new")])
    columns = view(engine).columns
    assert columns.slack.tolist() == pytest.approx([0.5 + 10 * 0.04, 0.5], abs=0.05)
    assert (columns.ttft_limit.tolist(), columns.tbt_limit.tolist()) == ([0.5, 0.5], [0.04, 0.04])


def test_the_last_token_of_a_prompt_is_still_a_prefill() -> None:
    assert view(scheduler([request("last", computed=99)], [])).columns.phase.tolist() == [Phase.PREFILL]


def test_work_in_flight_counts_as_done() -> None:
    seen = view(scheduler([request("f", computed=100, num_output_placeholders=1)], []))
    assert seen.columns.phase.tolist() == [Phase.DECODE]
    assert seen.columns.remaining.tolist() == [1]
    ahead = seen.columns.slack[0] - view(scheduler([request("f", computed=100)], [])).columns.slack[0]
    assert ahead == pytest.approx(0.04, abs=0.02), "the output in flight counts as delivered"


def test_a_request_whose_last_token_is_in_flight_is_left_out() -> None:
    ending = request("e", computed=100, num_output_placeholders=1, max_tokens=1)
    assert ids(view(scheduler([ending, decode("d")], [])).requests) == ["d"]


def test_requests_that_wait_for_something_else_are_left_out_but_looked_after() -> None:
    remote = request("remote", status=Fake(name="WAITING_FOR_REMOTE_KVS"))
    grammar = request("grammar", status=Fake(name="WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"))
    stale = request("stale", status=Fake(name="PREEMPTED"), num_stale_output_tokens=1)
    engine = scheduler([], [remote, grammar, stale])
    assert ids(view(engine).requests) == ["grammar"]
    assert engine.asked == ["grammar"]
    stale.num_stale_output_tokens = 0
    assert ids(view(engine).requests) == ["grammar", "stale"]


def test_the_tokens_of_a_waiting_request_are_noted_once_and_anew_after_it_ran() -> None:
    one = request("one")
    engine = scheduler([], [one])
    view(engine)
    engine.running.append(engine.waiting.popleft())
    one.num_computed_tokens = 100
    view(engine)
    one.num_computed_tokens, one.num_tokens, one.num_output_tokens = 0, 107, 7
    engine.waiting.append(engine.running.pop())  # preempted with seven tokens of output
    columns = view(engine).columns
    assert columns.remaining.tolist() == [107]
    assert columns.slack[0] == pytest.approx(0.5 + 7 * 0.04, abs=0.05)


def test_what_happened_while_vllm_decided_alone_is_seen_afterwards() -> None:
    one = request("one")
    engine = scheduler([], [one])
    view(engine)
    one.num_tokens, one.num_output_tokens = 109, 9  # it ran and was preempted in steps that nobody planned
    engine.observer.stale = True
    assert view(engine).columns.remaining.tolist() == [109]


def test_requests_that_came_or_were_admitted_while_vllm_decided_alone_are_seen_too() -> None:
    engine = scheduler([decode("unseen")], [request("waits")])
    view(engine)
    engine.running.append(decode("admitted"))
    assert ids(view(engine).requests) == ["unseen", "admitted", "waits"]


def test_slots_and_blocks_of_running_prefills_that_are_lost_count_as_room_for_those_that_wait() -> None:
    engine = scheduler([decode("d"), late("lost"), request("good", computed=60)], [request("new")])
    engine.max_num_active_reqs = 3
    seen = view(engine)
    assert ids(seen.requests[row] for row in seen.evictable) == ["lost"]
    assert seen.columns.max_admissions == 1
    assert seen.columns.free_kv_tokens == (10 + 60 // 16) * 16
    engine.waiting.clear()
    assert view(engine).evictable == [], "nobody needs its place"


def test_a_relegated_running_prefill_is_lost_too_and_one_in_flight_is_not_touched() -> None:
    good, flying = request("good", computed=60), late("flying", num_in_flight_tokens=32)
    engine = scheduler([good, flying], [request("new")])
    seen = view(engine)
    engine.observer.table.held.relegated[seen.table_rows[0]] = True
    seen = view(engine)
    assert seen.columns.relegated.tolist() == [True, False, False]
    assert ids(seen.requests[row] for row in seen.evictable) == ["good"]


def test_a_session_that_goes_on_is_planned_as_running() -> None:
    engine = scheduler([decode("d")], [request("new")])
    paused = request("paused", computed=60, status=Fake(name="WAITING_FOR_STREAMING_REQ"))
    engine.kv_holding_waiting.extend([paused, request("on", computed=60)])
    engine.num_waiting_for_streaming_input = 1
    seen = view(engine)
    assert ids(seen.requests) == ["d", "on", "new"]
    assert seen.columns.phase.tolist() == [Phase.DECODE, Phase.PREFILL, Phase.WAITING]
    assert seen.columns.max_admissions == 5, "one decodes, one goes on, one is paused"
    assert (seen.running, seen.started) == (1, 2)
    engine.kv_holding_waiting[1].sampling_params = Fake(
        extra_args={"slidingserve": {"ttft_s": 9.0, "tbt_s": 1}}
    )
    assert view(engine).columns.ttft_limit.tolist() == [0.5, 9.0, 0.5], (
        "its next part has a promise of its own"
    )


def test_a_request_whose_adapter_has_no_place_is_left_out() -> None:
    def using(name: str, number: int, **more: Any) -> Fake:
        return request(name, lora_request=Fake(lora_int_id=number), **more)

    waiting = [using("other", 2), using("same", 1), request("none")]
    engine = scheduler([using("p", 1, computed=9)], waiting, lora_config=Fake(max_loras=1))
    assert ids(view(engine).requests) == ["p", "same", "none"]
    engine.lora_config.max_loras = 2
    assert ids(view(engine).requests) == ["p", "other", "same", "none"]


def test_a_long_queue_is_seen_in_order() -> None:
    queue = [request(f"q{number}") for number in range(2000)]
    engine = scheduler([], queue)
    view(engine)
    begin = time.thread_time()
    seen = view(engine)
    assert time.thread_time() - begin < 0.1
    assert ids(seen.requests) == ids(queue)
