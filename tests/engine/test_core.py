"""The scheduler inside vLLM's real engine core, step by step, without a model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]


@pytest.fixture
def make(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engine cores; a second one gets a directory of its own."""
    monkeypatch.setenv("VLLM_PLUGINS", "slidingserve")
    monkeypatch.setenv("SLIDINGSERVE_STATE_DIR", str(tmp_path))
    from tests.engine.cores import Core

    made: list[Any] = []

    def build(**options: Any) -> Any:
        made.append(Core(tiny_model, tmp_path / str(len(made)), monkeypatch, **options))
        return made[-1]

    yield build
    for core in made:
        core.core.shutdown()


@pytest.fixture
def counted() -> Callable[..., float]:
    from prometheus_client import REGISTRY
    from slidingserve.server.metrics import PREFIX

    values: dict[tuple[str, str], float] = {}

    def since(name: str, **labels: str) -> float:
        """How much a series grew since the last call for it."""
        now = REGISTRY.get_sample_value(PREFIX + name, labels) or 0.0
        key = (name, str(labels))
        before, values[key] = values.get(key, 0.0), now
        return now - before

    return since


def mixed_load(core: Any, name: str = "r") -> None:
    """Short and long prompts, added in two waves so that prefills meet decodes."""
    for number, prompt in enumerate((30, 700, 5, 260, 90)):
        core.add(f"{name}{number}", prompt, output=6, ttft_s=1.0 + number, tbt_s=0.1)
    for _ in range(3):
        core.step()
    for number, prompt in enumerate((400, 3, 900, 256, 1), 5):
        core.add(f"{name}{number}", prompt, output=6, ttft_s=0.5, tbt_s=0.05)
    core.drain()


def switch(core: Any, generation: int, **scheduler: Any) -> None:
    """What the watching thread does when the file has changed."""
    from tests.engine.cores import write_config

    write_config(core.config_dir, generation=generation, **scheduler)
    core.agent.live.read()
    core.agent._changed(core.agent.live.view)


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
    make: Make, counted: Callable[..., float], asynchronous: bool
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


def test_no_step_waits_for_a_compiler_when_a_policy_is_switched_to(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba import njit
    from numba.core import event
    from slidingserve import policies

    compilations: list[int] = []

    class Listener(event.Listener):  # type: ignore[misc]  # numba is untyped
        def on_start(self, event: Any) -> None:
            compilations.append(threading.get_ident())

        def on_end(self, event: Any) -> None: ...

    with event.install_listener("numba:compile", Listener()):
        core = make(policy="fcfs")
        mixed_load(core, "before")
        for generation, policy in enumerate(policies.names(), 2):
            watcher = threading.Thread(target=switch, args=(core, generation), kwargs={"policy": policy})
            watcher.start()
            watcher.join()
            signatures = len(getattr(core.agent.force.plan, "signatures", ()))
            mixed_load(core, policy)
            assert len(getattr(core.agent.force.plan, "signatures", ())) == signatures
        assert threading.get_ident() not in compilations, "this thread steps the engine"
        njit(lambda: 1)()
        assert threading.get_ident() in compilations, "the listener hears of compilations"


def preempted(core: Any) -> list[str]:
    """The names of requests as they are preempted from now on."""
    names: list[str] = []
    preempt = core.scheduler._preempt_request

    def recorded(request: Any, *args: Any, **kwargs: Any) -> None:
        names.append(request.request_id)
        preempt(request, *args, **kwargs)

    core.scheduler._preempt_request = recorded
    return names


@pytest.mark.parametrize(
    ("asynchronous", "kv_bytes"),
    [(False, 1 << 26), (True, 1 << 26), (False, (1 << 21) + (1 << 17))],
    ids=["slots", "slots, asynchronous", "KV cache"],
)
def test_prefills_that_are_lost_and_half_done_starve_nobody_of_slots_or_kv_cache(
    make: Make, asynchronous: bool, kv_bytes: int
) -> None:
    """Eight late prompts, begun, take every slot (or two of them the KV cache). Then one comes that can be on
    time."""
    core = make(asynchronous=asynchronous, kv_bytes=kv_bytes, margin=1)
    victims = preempted(core)
    lost = [f"lost{number}" for number in range(8)]
    for name in lost:
        core.add(name, 900, output=2, ttft_s=0.001, tbt_s=10.0)
        core.step()
    held = {request.request_id for request in core.scheduler.running}
    core.add("good", 700, output=2, ttft_s=60.0, tbt_s=10.0)
    before = len(core.steps)
    while "good" not in core.tokens:
        core.step()
    served = [step for step in core.steps[before:] if "good" in step]
    assert len(core.steps) - before <= len(served) + 3, "it was served in each step from the next one on"
    assert core.scheduler.requests.keys() >= held - {"good"} - set(core.tokens)
    core.drain()
    assert core.tokens == dict.fromkeys([*lost, "good"], 2), "those that are late end all the same"
    assert set(victims) <= set(lost)


def test_a_relegated_request_stays_relegated_until_it_ends(make: Make) -> None:
    core = make(policy="qoserve", chunk={"maxTokens": 64})
    seen: list[set[str]] = []
    decide = core.agent.force.plan

    def watched(columns: Any, weights: Any, settings: Any) -> Any:
        decision = decide(columns, weights, settings)
        seen.append(set(columns.relegated.nonzero()[0].tolist()))
        return decision

    core.agent.force = core.agent.force._replace(plan=watched)
    core.add("hopeless", 2000, output=2, ttft_s=0.02, tbt_s=10.0)
    for number in range(4):
        core.add(f"r{number}", 200, output=2, ttft_s=20.0, tbt_s=10.0)
    core.drain()
    relegated = [bool(rows) for rows in seen]
    assert any(relegated)
    assert relegated == sorted(relegated), "once relegated, it is in every round after"
    assert core.tokens["hopeless"] == 2


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


def broken(columns: Any, weights: Any, settings: Any) -> Any:
    raise ZeroDivisionError("a planted fault")


def lazy(columns: Any, weights: Any, settings: Any) -> Any:
    """Computes nothing although there is work."""
    import numpy as np
    from slidingserve.core.columns import Decision

    waiting = np.flatnonzero(columns.phase < 2)
    return Decision(np.zeros(len(columns.phase), np.int64), waiting, columns.relegated, 0, 0.1, 0, 0)


@pytest.mark.parametrize("plan", [broken, lazy])
def test_a_planner_that_fails_leaves_each_step_to_vllm_and_is_counted(
    make: Make, counted: Callable[..., float], plan: Any
) -> None:
    stock = make(stock=True)
    mixed_load(stock)
    core = make()
    core.agent.force = core.agent.force._replace(plan=plan)
    counted("planner_errors_total", engine="0")
    counted("plans_total", engine="0", policy="slidingserve_paper", branch="fallback")
    mixed_load(core)
    assert core.steps == stock.steps
    assert core.tokens == stock.tokens
    failures = counted("planner_errors_total", engine="0")
    assert failures == counted("plans_total", engine="0", policy="slidingserve_paper", branch="fallback") > 10


def test_a_policy_is_switched_between_steps_and_on_an_idle_engine(
    make: Make, counted: Callable[..., float]
) -> None:
    core = make(policy="fcfs")
    core.add("a", 600, output=4)
    core.step()
    counted("plans_total", engine="0", policy="slidingserve_paper", branch="chunker")
    switch(core, 2, policy="slidingserve_paper")
    core.drain()
    assert counted("plans_total", engine="0", policy="slidingserve_paper", branch="chunker") > 3
    switch(core, 3, policy="fcfs")
    assert core.agent.force.policy == "fcfs", "in force although nothing was scheduled"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_predictor_is_fed_with_the_time_that_each_batch_really_took(
    make: Make, asynchronous: bool
) -> None:
    core = make(asynchronous=asynchronous)
    fed: list[tuple[float, float]] = []
    core.agent.learner.observe = lambda features, seconds: fed.append(
        (features.prefill_tokens + features.decode_requests, seconds)
    )
    mixed_load(core)
    real = core.core.model_executor.log
    assert [tokens for tokens, _ in fed] == [tokens for tokens, _ in real]
    late = sorted(measured - seconds for (_, measured), (_, seconds) in zip(fed, real, strict=True))
    assert abs(late[len(late) // 2]) < 0.002, "at the median; single steps wait for this machine's cores"


def test_a_change_is_reported_when_its_policy_decides_and_not_while_it_is_compiled(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slidingserve.server import state
    from slidingserve.vllm_adapter.force import force_of

    from tests.engine.cores import write_config

    core = make(policy="fcfs")
    reported: list[int] = []

    def report() -> None:
        core.agent.report()
        (document,) = state.read_all(core.agent._runtime.process_dir)
        reported.append(document["generation"])

    def slow(*args: Any, **kwargs: Any) -> Any:
        report()
        return force_of(*args, **kwargs)

    monkeypatch.setattr("slidingserve.vllm_adapter.agent.force_of", slow)
    write_config(core.config_dir, generation=2, policy="sarathi_edf")
    core.agent.live.read()
    core.agent._changed(core.agent.live.view)
    report()
    assert reported == [1, 2]


def test_requests_without_a_promise_or_with_an_odd_one_are_served(
    make: Make, counted: Callable[..., float]
) -> None:
    core = make()
    counted("planner_errors_total", engine="0")
    core.add("none", 300)
    core.add("odd", 300, ttft_s="soon", tbt_s=[], arrival="x", safeguard="yes")
    core.drain()
    assert core.tokens == {"none": 4, "odd": 4}
    assert counted("planner_errors_total", engine="0") == 0


def test_a_full_kv_cache_preempts_and_still_serves_all(make: Make, counted: Callable[..., float]) -> None:
    core = make(kv_bytes=(1 << 21) + (1 << 16))
    counted("planner_errors_total", engine="0")
    preempted: list[str] = []
    preempt = core.scheduler._preempt_request

    def recorded(request: Any, *args: Any, **kwargs: Any) -> None:
        preempted.append(request.request_id)
        preempt(request, *args, **kwargs)

    core.scheduler._preempt_request = recorded
    for number in range(6):
        core.add(f"r{number}", 300, output=200, ttft_s=5.0, tbt_s=0.5)
    core.drain(5000)
    assert preempted
    assert core.tokens == {f"r{number}": 200 for number in range(6)}
    assert counted("planner_errors_total", engine="0") == 0


def test_a_prompt_that_vllm_will_not_admit_yet_does_not_stop_all_others(make: Make) -> None:
    core = make(kv_bytes=(1 << 21) + (1 << 16), watermark=0.8)
    core.add("long", 1500, ttft_s=50.0, tbt_s=1.0)
    core.step()
    core.add("short", 300, ttft_s=50.0, tbt_s=1.0)
    core.drain(100)
    assert core.tokens == {"long": 4, "short": 4}
    assert {} in core.steps, "the short one was planned first, and vLLM refused it"


def test_calibration_runs_in_stock_order_and_stays_out_of_the_metrics(
    make: Make, counted: Callable[..., float]
) -> None:
    core = make()
    counted("batch_tokens_count", engine="0")
    samples = core.agent.learner._predictor.samples
    assert core.core.slidingserve_calibration("measure") == "no"
    mixed_load(core)
    assert core.core.slidingserve_calibration("end") == "yes"
    assert counted("batch_tokens_count", engine="0") == 0
    assert core.agent.learner._predictor.samples > samples + 10
    core.add("after", 10)
    core.drain()
    assert counted("batch_tokens_count", engine="0") > 0


def test_the_limits_of_the_engine_are_put_back_after_each_step(make: Make) -> None:
    core = make()
    limits = core.scheduler.max_num_scheduled_tokens, core.scheduler.max_num_active_reqs
    mixed_load(core)
    assert (core.scheduler.max_num_scheduled_tokens, core.scheduler.max_num_active_reqs) == limits


def test_a_core_whose_model_cannot_be_planned_is_refused_or_steps_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slidingserve.vllm_adapter import gate

    make()
    sentence = "a planted row"
    row = gate.Row("planted", lambda config: True, sentence)
    monkeypatch.setattr(gate, "CONFIG_ROWS", (row,))
    with pytest.raises(SystemExit) as refused:
        make()
    assert refused.value.code == 2
    assert os.environ.get("SLIDINGSERVE_FALLBACK") == "0"
