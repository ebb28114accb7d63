"""The parts of `make bench-paper` below the plan: outputs, settings from outside."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from slidingserve.report.rows import Row, load

from benchmarks.paper import __main__ as command
from benchmarks.paper import output
from tests.unit.report.synthetic import document


def test_the_results_have_the_schema_that_was_promised(tmp_path: Path) -> None:
    made = document()
    made["rows"] = made["rows"][:40]
    output.write(made, tmp_path)
    output.report(made, tmp_path)
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
    monkeypatch.setattr("sys.argv", ["paper"])
    monkeypatch.setenv(name, value)
    assert command.main() == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_help_is_help_and_an_argument_is_refused_so_that_neither_starts_an_hour_of_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["paper", "--help"])
    assert command.main() == 0
    assert "QUICK=1" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["paper", "figure4"])
    assert command.main() == 2
    assert "takes no arguments" in capsys.readouterr().err
