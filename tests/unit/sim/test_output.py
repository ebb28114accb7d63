"""Tables on the terminal: whatever its width, no digit is lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from slidingserve.sim import output
from slidingserve.sim.commands import compare, simulate

COMPARED = {
    "qps": 1.25,
    "policy": "qoserve:grid=rescaled",
    "misses": "12.34 [10.11,14.55]",
    "fewer": "-12.34 [-13.22,-11.44]",
    "ttft_p50_s": 0.119,
}
SIMULATED = {
    "class": "summarization",
    "requests": 2000,
    "attainment_percent": 98.8,
    "missed_ttft": 123,
    "missed_tbt": 111,
    "ttft_p50_s": 0.119,
    "ttft_p99_s": 12.3,
    "tbt_p99_s": 0.0412,
}


def shown(width: int, row: dict[str, object], columns: dict[str, str]) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None, highlight=False)
    output.show(console, "title", [row, row], columns)
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", range(48, 130, 4))
@pytest.mark.parametrize(
    ("row", "columns"),
    [(COMPARED, compare._COLUMNS), (SIMULATED, simulate._COLUMNS)],
    ids=["compare", "simulate"],
)
def test_every_value_is_shown_whole_in_any_width(
    width: int, row: dict[str, object], columns: dict[str, str]
) -> None:
    lines = shown(width, row, columns)
    assert all(len(line.rstrip()) <= width for line in lines)
    words = " ".join(lines).split()
    for value in row.values():
        for word in str(value).split():
            assert words.count(word) >= 2, (width, word)


def test_eighty_columns_hold_both_tables() -> None:
    for row, columns in ((COMPARED, compare._COLUMNS), (SIMULATED, simulate._COLUMNS)):
        values = [str(value) for value in row.values()]
        assert any(all(value in line for value in values) for line in shown(80, row, columns))
