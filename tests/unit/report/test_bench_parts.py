"""The parts of `make bench-paper` below the plan: grid search, store, outputs, settings from outside."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.report import paper
from slidingserve.report.rows import Row, load

from benchmarks.paper import __main__ as command
from benchmarks.paper import grid, output, plan, store
from benchmarks.paper.jobs import Measurement
from benchmarks.paper.options import SLIDING
from benchmarks.paper.store import Store
from tests.unit.report.synthetic import document

ONE = Measurement("goodput", plan.here(paper.QWEN, "mixed_v1"), SLIDING, (), 1, 1, 2000, tolerance=0.02)
TWO = Measurement("goodput", plan.here(paper.QWEN, "mixed_v1"), SLIDING, (), 2, 1, 2000, tolerance=0.02)
METRICS = [{"metric": "goodput_qps", "value": 1.5}]


@given(st.floats(0.03, 90), st.one_of(st.none(), st.floats(0.01, 200)), st.sampled_from((0.02, 0.1, 0.2)))
def test_the_search_finds_the_same_grid_point_from_wherever_it_starts(
    limit: float, start: float | None, tolerance: float
) -> None:
    asked: list[int] = []

    def holds(step: int) -> bool:
        asked.append(step)
        return grid.rate(step, tolerance) <= limit

    found = grid.highest(holds, start, tolerance)
    assert found is not None
    assert grid.rate(found, tolerance) <= limit < grid.rate(found + 1, tolerance)
    assert len(asked) == len(set(asked)) or tolerance > 0.1, "no rate is simulated twice"
    assert len(asked) < 30


def test_a_policy_that_never_holds_has_no_goodput_and_one_that_always_holds_ends() -> None:
    assert grid.highest(lambda step: False, 1.0, 0.02) is None
    best = grid.highest(lambda step: True, 1.0, 0.02)
    assert best is not None
    assert grid.rate(best, 0.02) == pytest.approx(grid.HIGHEST, rel=0.02)


def test_a_stopped_run_goes_on_where_it_was_even_with_half_a_line_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "measurements.jsonl"
    Store(path).put(ONE, METRICS, 2.0)
    path.write_text(path.read_text() + '{"key": "half a li')
    again = Store(path)
    assert again.get(ONE) == METRICS
    assert again.get(TWO) is None
    again.put(TWO, METRICS, 1.0)
    assert Store(path).get(TWO) == METRICS


def test_what_other_code_measured_is_not_taken_for_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path / "m.jsonl").put(ONE, METRICS, 2.0)
    monkeypatch.setattr(store, "code_digest", lambda: "other")
    assert Store(tmp_path / "m.jsonl").get(ONE) is None


def test_comments_and_docstrings_do_not_make_new_code(tmp_path: Path) -> None:
    texts = ('"""One."""\nX = 1  # one\n', '"""Two."""\n\nX = 1\n', "X = 2\n")
    digests = []
    for i, text in enumerate(texts):
        path = tmp_path / f"{i}.py"
        path.write_text(text)
        digests.append(store.content(path))
    assert digests[0] == digests[1] != digests[2]


def test_the_results_have_the_schema_that_was_promised(tmp_path: Path) -> None:
    made = document()
    made["rows"] = made["rows"][:40]
    output.write(made, tmp_path)
    results = load(tmp_path / "results.json")
    assert len(results.rows) == 40
    with (tmp_path / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 40
    assert list(lines[0])[:11] == [name for name, field in Row.model_fields.items() if field.is_required()]
    assert json.loads(lines[0]["options"]) == made["rows"][0]["options"]
    table = (tmp_path / "table.md").read_text()
    assert "ours | paper's" in table
    assert "95 % t-interval" in table
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ONLY", "figure7", "ONLY=figure7 is none of figure4"),
        ("REQUESTS", "many", "REQUESTS=many is no count"),
        ("REQUESTS", "0", "REQUESTS=0"),
        ("PROCESSES", "-1", "PROCESSES=-1"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_2(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert command.main() == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
