"""What is in force is compiled before it is: for the very types that a step calls it with."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from slidingserve import config, policies
from slidingserve.core.columns import BRANCHES
from slidingserve.predictor.calibration import default_model
from slidingserve.vllm_adapter.force import force_of

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
    force = force_of(configured(policy=name, options={"margin": 2}), WEIGHTS)
    assert force.policy == name
    assert force.settings.margin == 2.0
    plan: Any = force.plan
    signatures = len(plan.signatures)
    assert signatures >= 1
    busy = scheduler([decode("d"), request("p", computed=50)], [request("a"), request("b")])
    for engine in (busy, scheduler([], [request("a")]), scheduler([decode("d")], [])):
        decision = plan(view(engine).columns, WEIGHTS, force.settings)
        assert decision.tokens.sum() > 0
        assert decision.budget >= decision.tokens.sum()
        assert BRANCHES[decision.branch] in BRANCHES
        assert sorted(decision.order.tolist()) == np.flatnonzero(view(engine).columns.phase < 2).tolist()
    assert len(plan.signatures) == signatures, "a step in service would have waited for the compiler"
