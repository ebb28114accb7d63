"""The agent of an engine core: whatever fails, the engine serves on and the reason is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from slidingserve.predictor.profile import ProfileKey
from slidingserve.server import state
from slidingserve.server.runtime import Runtime, ready_mark
from slidingserve.vllm_adapter import agent as module
from slidingserve.vllm_adapter.agent import CoreAgent
from slidingserve.vllm_adapter.identity import Limits

from tests.unit.adapter.fakes import request, scheduler
from tests.unit.server.conftest import DOCUMENT

LIMITS = Limits(max_batch_tokens=512, max_model_len=2048, max_requests=8, device="cpu")
KEY = ProfileKey("0.32.0", "m", "", "float32", 1, 1, "cpu", 512, False)


def write(directory: Path, generation: int, **scheduler: Any) -> None:
    document = {**DOCUMENT, "revision": f"{generation}", "generation": generation, "scheduler": scheduler}
    (directory / "slidingserve.json").write_text(json.dumps(document))


@pytest.fixture
def agent(tmp_path: Path) -> CoreAgent:
    runtime = Runtime(tmp_path, tmp_path)
    runtime.process_dir.mkdir()
    write(tmp_path, 1, policy="sarathi_edf")
    return CoreAgent(runtime, index=0, engine="0", limits=LIMITS, key=KEY)


def reported(tmp_path: Path) -> dict[str, Any]:
    (document,) = state.read_all(Runtime(tmp_path).process_dir)
    return document


def test_a_change_that_cannot_be_compiled_is_refused_with_the_reason_and_the_policy_before_it_decides_on(
    agent: CoreAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no space left")

    before = agent.force
    with monkeypatch.context() as patched:
        patched.setattr(module, "force_of", fails)
        write(tmp_path, 2, policy="qoserve")
        agent.live.read()
        agent._changed(agent.live.view)
    assert agent.force is before
    found = reported(tmp_path)
    assert (found["generation"], found["policy"]) == (1, "sarathi_edf")
    assert (found["rejected"]["revision"], found["rejected"]["generation"]) == ("2", 2)
    assert "scheduler.policy: qoserve cannot be put in force" in found["rejected"]["message"]
    assert "no space left" in found["rejected"]["message"]
    write(tmp_path, 3, policy="ppas")
    agent.live.read()
    agent._changed(agent.live.view)
    assert reported(tmp_path)["generation"] == 3
    assert reported(tmp_path)["rejected"] is None


def test_no_exception_leaves_the_planner_not_even_of_a_scheduler_it_does_not_know(
    agent: CoreAgent, counted: Callable[..., float]
) -> None:
    odd = scheduler([], [request("a")])  # it has no pause_state
    step = agent.prepare(odd)
    assert step.tokens is None
    agent.scheduled(odd, Fake(), step)
    agent.done(None)
    assert counted("planner_errors_total", engine="0") == 2
    assert counted("plans_total", engine="0", policy="sarathi_edf", branch="fallback") == 1


def test_what_fails_every_second_is_logged_once(
    agent: CoreAgent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise OSError("no space left")

    monkeypatch.setattr(agent.learner, "refresh", fails)
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    for _ in range(3):
        agent.refresh()
    assert [record.getMessage() for record in caplog.records] == [
        "slidingserve: the predictor's refresh failed, the model in force stays (logged once)"
    ]


def test_while_a_policy_is_compiled_the_one_before_it_decides_and_the_report_says_so(
    agent: CoreAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile: list[tuple[str, str, int, str]] = []

    def slow(config: Any, *args: Any, **kwargs: Any) -> Any:
        found = reported(tmp_path)
        told = (found["compiling"], found["policy"], found["generation"], agent.force.policy)
        meanwhile.append(told)
        return before._replace(policy=config.scheduler.policy)

    before = agent.force
    monkeypatch.setattr(module, "force_of", slow)
    monkeypatch.setattr(module, "loaded", lambda name: False)
    monkeypatch.setattr(agent, "_serving", True)
    write(tmp_path, 2, policy="qoserve")
    agent.live.read()
    agent._changed(agent.live.view)
    assert meanwhile == [("qoserve", "sarathi_edf", 1, "sarathi_edf")]
    found = reported(tmp_path)
    assert (found["compiling"], found["policy"], found["generation"]) == ("", "qoserve", 2)


def test_other_policies_are_compiled_once_the_engine_is_ready_and_not_before(
    agent: CoreAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(agent._warmth, "begin", begun.append)
    agent.refresh()
    assert begun == []
    ready_mark(Runtime(tmp_path)).touch()
    agent.refresh()
    assert begun == ["sarathi_edf"]
