"""What is in force is compiled before it is: for the very types that a step calls it with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slidingserve import config, policies
from slidingserve.core.columns import BRANCHES
from slidingserve.predictor.calibration import default_model
from slidingserve.vllm_adapter import force
from slidingserve.vllm_adapter.force import force_of

from tests.polling import until
from tests.unit.adapter.fakes import decode, request, scheduler, view

WEIGHTS = default_model("cpu").matrix
COMPILED = [name for name in policies.names() if name != "fcfs"]


def configured(**settings: Any) -> config.EngineConfig:
    document = {**config.builtin().model_dump(by_alias=True, mode="json"), "scheduler": settings}
    return config.loads(json.dumps(document))


def test_fcfs_leaves_every_step_to_vllm() -> None:
    assert force_of(configured(policy="fcfs"), WEIGHTS).plan is None


@pytest.mark.parametrize("name", COMPILED)
def test_a_policy_in_force_is_compiled_for_what_the_engine_will_ask(name: str) -> None:
    chosen = force_of(configured(policy=name, options={"margin": 2}), WEIGHTS)
    assert chosen.policy == name
    assert chosen.settings.margin == 2.0
    plan: Any = chosen.plan
    signatures = len(plan.signatures)
    assert signatures >= 1
    busy = scheduler([decode("d"), request("p", computed=50)], [request("a"), request("b")])
    for engine in (busy, scheduler([], [request("a")]), scheduler([decode("d")], [])):
        decision = plan(view(engine).columns, WEIGHTS, chosen.settings)
        assert decision.tokens.sum() > 0
        assert decision.budget >= decision.tokens.sum()
        assert BRANCHES[decision.branch] in BRANCHES
        assert sorted(decision.order.tolist()) == np.flatnonzero(view(engine).columns.phase < 2).tolist()
    assert len(plan.signatures) == signatures, "a step in service would have waited for the compiler"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The policies that a process of its own was to compile; none of it happens, and the cache is empty."""
    names: list[str] = []

    def apart(*wanted: str, idle: bool = False) -> bool:
        names.extend(wanted)
        return True

    monkeypatch.setattr(force, "compile_apart", apart)
    monkeypatch.setattr(force, "compiled_ahead", lambda: False)
    return names


def test_in_service_a_process_of_its_own_compiles_what_this_one_has_not(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = force_of(configured(policy="sarathi_edf"), WEIGHTS).plan
    force_of(configured(policy="sarathi_edf"), WEIGHTS, serving=True)
    assert asked == [], "it is compiled already"
    monkeypatch.setattr("slidingserve.policies.sarathi_edf.plan", lambda *columns: plan(*columns))  # type: ignore[misc]
    force_of(configured(policy="sarathi_edf"), WEIGHTS)
    assert asked == [], "before the engine serves, this process compiles"
    force_of(configured(policy="sarathi_edf"), WEIGHTS, serving=True)
    assert asked == ["sarathi_edf"]
    monkeypatch.setattr(force, "compiled_ahead", lambda: True)
    force_of(configured(policy="sarathi_edf"), WEIGHTS, serving=True)
    assert asked == ["sarathi_edf"], "its code lies ready: this process only loads it"


def test_once_an_engine_is_ready_all_other_policies_are_compiled_ahead(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "stamp"
    monkeypatch.setattr(force, "_stamp", lambda: stamp)
    monkeypatch.setattr(force, "cpus", lambda: 2.0)
    warmth = force.Warmth()
    for _ in range(2):
        warmth.begin("ppas")
    until(stamp.exists, "it is done")
    assert asked == [name for name in COMPILED if name != "ppas"]


def test_nothing_is_compiled_ahead_where_the_engine_would_lack_the_time(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("150000 100000\n")
    assert force.cpus(quota) == min(1.5, len(os.sched_getaffinity(0)))
    quota.write_text("max 100000\n")
    assert force.cpus(quota) == force.cpus(tmp_path / "none") == len(os.sched_getaffinity(0))
    monkeypatch.setattr(force, "cpus", lambda: 1.5)
    warmth = force.Warmth()
    warmth._run(COMPILED)
    assert asked == []


def test_a_compilation_apart_leaves_code_for_this_process_and_its_failure_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    force.compile_apart("sarathi_edf")
    assert any("sarathi_edf.plan" in path.name for path in tmp_path.rglob("*.nbi"))
    assert not caplog.records
    assert not force.compile_apart("no_such_policy")
    assert "no_such_policy is compiled beside the engine's loop" in caplog.text
