"""Every row of docs/features.md is shown by tests that are there, on real parts."""

from __future__ import annotations

import pytest

from tests.features.table import PAGE, REAL, ROOT, Row, Shown, named_tests, rows
from tests.features.test_disabled import PACKAGE, QUICK, SLOW, Change

ROWS = rows(PAGE.read_text())
SAMPLE = """\
## What it does

| feature | how | shown by |
|---|---|---|
| Drift | repaired | [repair](../tests/contract/test_children.py#test_nothing_of_this_name) |
"""


def problems(row: Row) -> list[str]:
    """What is wrong with a row; empty if nothing is."""
    if not row.shown:
        return ["no test is linked"]
    gone = [shown.node for shown in row.shown if shown.test not in named_tests(shown.path)]
    if gone:
        return [f"{node} does not exist" for node in gone]
    if not any(_in_ci_on_real_parts(shown) for shown in row.shown):
        return ["no linked test runs on a real API server, cluster or engine in `make test`"]
    return []


def _in_ci_on_real_parts(shown: Shown) -> bool:
    markers = named_tests(shown.path)[shown.test]
    return bool(REAL & markers) and "soak" not in markers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_shown_by_tests_that_exist_and_run_on_real_parts(row: Row) -> None:
    assert problems(row) == []


@pytest.mark.parametrize("change", [*QUICK, *SLOW], ids=lambda change: change.row)
def test_what_is_taken_out_of_the_operator_is_still_in_it(change: Change) -> None:
    text = (ROOT / "operator" / PACKAGE / change.file).read_text()
    assert text.count(change.old) == 1


def test_the_page_has_rows_and_none_twice() -> None:
    names = [(row.section, row.name) for row in ROWS]
    assert len(names) > 60
    assert len(names) == len(set(names))


def test_a_row_whose_test_is_gone_is_seen() -> None:
    (row,) = rows(SAMPLE)
    assert problems(row) == ["tests/contract/test_children.py::test_nothing_of_this_name does not exist"]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("by hand", "no test is linked"),
        ("[x](../tests/features/test_table.py#test_a_row_whose_test_is_gone_is_seen)", "no linked test runs"),
        (
            "[x](../tests/contract/test_chaos.py#test_killed_a_hundred_times_during_changes_it_converges)",
            "no linked test runs",
        ),
    ],
)
def test_a_row_that_only_claims_or_is_shown_on_no_real_part_is_seen(cell: str, says: str) -> None:
    (row,) = rows(f"| feature | shown by |\n|---|---|\n| Drift | {cell} |\n")
    (problem,) = problems(row)
    assert problem.startswith(says)
