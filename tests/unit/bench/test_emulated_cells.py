"""What the comparison on the emulated engine measures: policies as people write them, cells, their order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from slidingserve.config import loads

from benchmarks.emulated.cells import Cell, Setting, Spec, SpecError, shuffled
from benchmarks.emulated.measure import recorded, write

SETTING = Setting("rtx3090-tp2-llama3.1-8b", "mixed_v1", 50, 1)


def test_a_policy_carries_its_budget_and_options_into_the_engines_configuration() -> None:
    spec = Spec.parse("qoserve:512,grid=rescaled,grid_smallest=64,relegation=false")
    config = loads(json.dumps(spec.document(3)))
    assert (config.generation, config.scheduler.policy, spec.engine_tokens) == (3, "qoserve", None)
    settings = config.policy_settings()
    assert (settings.budget, settings.grid, settings.grid_smallest) == (512, "rescaled", 64)
    assert settings.relegation is False


def test_the_budget_of_fcfs_is_the_engines_own() -> None:
    spec = Spec.parse("fcfs:256")
    assert (spec.engine_tokens, spec.settings()) == (256, {})


@pytest.mark.parametrize(
    "text",
    ["nope", "fcfs:many", "qoserve,grid", "qoserve,grid=odd", "qoserve,gird=rescaled", "ppas,margin=0"],
)
def test_a_policy_that_cannot_be_run_is_one_sentence(text: str) -> None:
    with pytest.raises(SpecError, match=f"policy '{text}': "):
        Spec.parse(text)


def test_every_policy_meets_the_same_requests_and_promises_at_each_rate() -> None:
    slow, fast = SETTING.trace(1.0), SETTING.trace(2.0)
    assert np.array_equal(slow[0].prompt_tokens, fast[0].prompt_tokens)
    assert np.array_equal(slow[1], fast[1])
    assert slow[0].arrival[-1] == pytest.approx(2 * fast[0].arrival[-1])


def test_cells_that_need_the_same_engine_run_together_in_a_random_order() -> None:
    cells = [
        Cell(SETTING, Spec.parse(text), rate)
        for text in ("fcfs:256", "fcfs:512", "ppas", "sarathi_edf:128", "qoserve")
        for rate in (1.0, 2.0)
    ]
    groups = shuffled(cells, 1)
    assert sorted(cell.file for group in groups for cell in group) == sorted(cell.file for cell in cells)
    assert sorted(len(group) for group in groups) == [2, 2, 6]
    assert all(len({cell.spec.engine_tokens for cell in group}) == 1 for group in groups)
    assert shuffled(cells, 1) == groups != shuffled(cells, 2)


def test_a_record_counts_only_for_exactly_its_cell(tmp_path: Path) -> None:
    cell = Cell(SETTING, Spec.parse("ppas"), 1.0)
    assert recorded(tmp_path, cell) is None
    write(tmp_path / cell.file, {"key": cell.key, "attainment": 1.0})
    found = recorded(tmp_path, cell)
    assert found is not None
    assert found["attainment"] == 1.0
    write(tmp_path / cell.file, {"key": {**cell.key, "seed": 2}})
    assert recorded(tmp_path, cell) is None
