"""Planners and models that vLLM's real engine core must survive or refuse."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.engine.loads import Counted, Make, mixed_load


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
    make: Make, counted: Counted, plan: Any
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


def test_a_core_whose_model_cannot_be_planned_is_refused_or_steps_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slidingserve.vllm_adapter import gate, unplanned

    make()
    sentence = "a planted row"
    row = unplanned.Row("planted", lambda config: True, sentence)
    monkeypatch.setattr(gate, "CONFIG_ROWS", (row,))
    with pytest.raises(SystemExit) as refused:
        make()
    assert refused.value.code == 2
    assert os.environ.get("SLIDINGSERVE_FALLBACK") == "0"
