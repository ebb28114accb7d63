"""Policies that are switched while vLLM's real engine core runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.engine.loads import Counted, Make, mixed_load, switch
from tests.engine.served import wait


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


def test_a_policy_is_switched_between_steps_and_on_an_idle_engine(make: Make, counted: Counted) -> None:
    core = make(policy="fcfs")
    core.add("a", 600, output=4)
    core.step()
    counted("plans_total", engine="0", policy="slidingserve_paper", branch="chunker")
    switch(core, 2, policy="slidingserve_paper")
    core.drain()
    assert counted("plans_total", engine="0", policy="slidingserve_paper", branch="chunker") > 3
    switch(core, 3, policy="fcfs")
    assert core.agent.force.policy == "fcfs", "in force although nothing was scheduled"


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


def test_an_engine_that_ends_takes_its_threads_with_it(make: Make) -> None:
    def ours() -> bool:
        return any(thread.name.startswith("slidingserve-") for thread in threading.enumerate())

    core = make()
    assert ours()
    core.close()
    wait(lambda: not ours(), "watcher and agent have ended")
