"""Who is served in each step of vLLM's real engine core, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.loads import Counted, Make, mixed_load, switch


@pytest.mark.parametrize("asynchronous", [False, True])
def test_fcfs_schedules_exactly_as_stock_step_by_step(make: Make, asynchronous: bool) -> None:
    stock = make(stock=True, asynchronous=asynchronous)
    mixed_load(stock)
    ours = make(policy="fcfs", asynchronous=asynchronous)
    mixed_load(ours)
    assert type(stock.scheduler).__module__.startswith("vllm.")
    assert [list(step.items()) for step in ours.steps] == [list(step.items()) for step in stock.steps]
    assert ours.tokens == stock.tokens


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_request_ends_and_every_decode_gets_its_token_in_each_step(
    make: Make, asynchronous: bool
) -> None:
    core = make(asynchronous=asynchronous)
    decoding: list[tuple[set[str], dict[str, int]]] = []
    schedule = core.scheduler.schedule

    def watched(throttle_prefills: bool = False) -> Any:
        before = {
            request.request_id
            for request in core.scheduler.running
            if request.num_output_tokens + request.num_output_placeholders
            and request.num_computed_tokens + 1 == request.num_tokens + request.num_output_placeholders
            # Asynchronous scheduling knows when the output in flight is the last.
            and request.num_output_tokens + request.num_output_placeholders < request.max_tokens
        }
        output = schedule(throttle_prefills)
        decoding.append((before, output.num_scheduled_tokens))
        return output

    core.scheduler.schedule = watched
    mixed_load(core)
    assert core.tokens == {f"r{number}": 6 for number in range(10)}
    assert sum(len(before) for before, _ in decoding) >= 40
    assert all(scheduled.get(name) == 1 for before, scheduled in decoding for name in before)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_policy_serves_every_request_of_one_engine(
    make: Make, counted: Counted, asynchronous: bool
) -> None:
    from slidingserve import policies

    core = make(policy="fcfs", asynchronous=asynchronous)
    counted("planner_errors_total", engine="0")
    for generation, policy in enumerate(policies.names(), 2):
        switch(core, generation, policy=policy)
        counted("plan_seconds_count", engine="0", policy=policy)
        mixed_load(core, policy)
        assert [core.tokens[f"{policy}{number}"] for number in range(10)] == [6] * 10
        assert (counted("plan_seconds_count", engine="0", policy=policy) > 5) == (policy != "fcfs")
    assert counted("planner_errors_total", engine="0") == 0


def first_prefilled(core: Any) -> list[str]:
    order: list[str] = []
    for step in core.steps:
        order += [name for name in step if name not in order]
    return order


def test_alpha_decides_who_prefills_first(make: Make) -> None:
    orders = []
    for alpha in (1e9, 0.02):
        core = make(alpha=alpha)
        core.add("short", 200, ttft_s=500.0, tbt_s=1.0)
        core.add("long", 900, ttft_s=5.0, tbt_s=1.0)
        core.add("middle", 500, ttft_s=500.0, tbt_s=1.0)
        core.drain()
        orders.append(first_prefilled(core))
    assert orders[0] == ["short", "middle", "long"], "nothing is urgent: the shortest first"
    assert orders[1] == ["long", "short", "middle"], "its deadline is near for its size: urgent, so first"


def test_requests_without_a_promise_or_with_an_odd_one_are_served(make: Make, counted: Counted) -> None:
    core = make()
    counted("planner_errors_total", engine="0")
    core.add("none", 300)
    core.add("odd", 300, ttft_s="soon", tbt_s=[], arrival="x", safeguard="yes")
    core.drain()
    assert core.tokens == {"none": 4, "odd": 4}
    assert counted("planner_errors_total", engine="0") == 0


def test_the_limits_of_the_engine_are_put_back_after_each_step(make: Make) -> None:
    core = make()
    limits = core.scheduler.max_num_scheduled_tokens, core.scheduler.max_num_active_reqs
    mixed_load(core)
    assert (core.scheduler.max_num_scheduled_tokens, core.scheduler.max_num_active_reqs) == limits
