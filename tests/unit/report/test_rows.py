"""A results file is checked before anything is drawn; what is wrong with it is said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slidingserve.report.rows import ReportError, Row, load, select

from tests.unit.report.synthetic import document, row


def test_the_row_has_the_fields_that_readers_of_results_rely_on() -> None:
    required = [name for name, field in Row.model_fields.items() if field.is_required()]
    assert required == [
        "figure",
        "model",
        "hardware",
        "workload",
        "policy",
        "options",
        "seed",
        "fit",
        "criterion",
        "metric",
        "value",
    ]
    assert {"stage", "variant", "scene", "qps", "time_s", "n", "ci_low", "ci_high"} <= set(Row.model_fields)


def test_a_whole_document_is_read_and_unknown_fields_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    made = document()
    made["rows"][0]["somebody_elses"] = 1
    path.write_text(json.dumps(made))
    results = load(path)
    assert len(results.rows) == len(made["rows"])
    assert results.about.choice_seed == 100


def test_select_takes_reported_rows_unless_told_otherwise() -> None:
    rows = [Row(**row("figure4", "fcfs", "goodput_qps", 1.0, stage=stage)) for stage in ("choose", "report")]
    assert [found.stage for found in select(rows, figure="figure4")] == ["report"]
    assert [found.stage for found in select(rows, stage="choose")] == ["choose"]


BAD = {
    "not json": ("{", "it is not JSON"),
    "no rows": ("{}", "rows: it is missing"),
    "rows that are no list": ('{"rows": 3}', "rows: 3"),
    "empty": ('{"rows": []}', "rows is empty"),
    "a list": ("[]", "the document"),
    "a row without a policy": (
        json.dumps({"rows": [{k: v for k, v in row("f", "p", "m", 1.0).items() if k != "policy"}]}),
        "rows[0].policy: it is missing; expected: a scheduling policy",
    ),
    "a value that is no number": (
        json.dumps({"rows": [row("f", "p", "m", 1.0) | {"value": "fast"}]}),
        'rows[0].value: "fast"',
    ),
    "NaN": (json.dumps({"rows": [row("f", "p", "m", float("nan"))]}), "rows[0].value"),
    "an unknown criterion": (
        json.dumps({"rows": [row("f", "p", "m", 1.0, criterion="most")]}),
        "rows[0].criterion",
    ),
    "a base that is no number": (
        json.dumps({"rows": [row("slo_base", "p", "m", 1.0, variant="large")]}),
        "variant: 'large' of slo_base is no base",
    ),
    "a base that is not there": (json.dumps({"rows": [row("slo_base", "p", "m", 1.0)]}), "variant: ''"),
    "brackets without end": ('{"rows": ' + "[" * 100_000 + "]" * 100_000 + "}", "it is not JSON"),
    "a value beyond all axes": (json.dumps({"rows": [row("f", "p", "m", 1e308)]}), "rows[0].value"),
    "a rate beyond all axes": (json.dumps({"rows": [row("f", "p", "m", 1.0, qps=1e308)]}), "rows[0].qps"),
    "a name like a book": (json.dumps({"rows": [row("f", "p" * 100_000, "m", 1.0)]}), "rows[0].policy"),
    "many problems": (json.dumps({"rows": [{} for _ in range(50)]}), "problems in all"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_short_line(case: str, tmp_path: Path) -> None:
    text, said = BAD[case]
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ReportError) as error:
        load(path)
    message = str(error.value)
    assert said in message
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))


def test_a_missing_file_a_directory_and_bytes_are_said(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ReportError, match=r"give the results\.json of make bench-paper"):
            load(path)
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match="not UTF-8"):
        load(path)
