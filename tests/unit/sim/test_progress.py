"""What people see of a long search."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from slidingserve.sim import progress


@pytest.mark.parametrize(("seconds", "words"), [(5, "5 s"), (200, "3 min"), (9000, "2.5 h")])
def test_a_duration_is_said_in_the_unit_that_people_would_use(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


def test_a_log_gets_a_line_now_and_then_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("slidingserve.sim.progress.time.monotonic", lambda: clock)
    text = io.StringIO()
    with progress.reported("goodput", Console(file=text)) as report:
        for made in range(1, 8):
            clock = made * 4.0
            report(made, 12 - made)
    first, *lines = text.getvalue().splitlines()
    assert first == "goodput: simulating (the very first run compiles for about a minute)"
    assert lines == [
        "goodput: 3 of about 12 runs, 36 s left",
        "goodput: 6 of about 12 runs, 24 s left",
    ]


def test_before_the_first_run_a_log_gets_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("slidingserve.sim.progress.time.monotonic", lambda: clock)
    text = io.StringIO()
    with progress.reported("compare", Console(file=text)) as report:
        clock = 75.0  # compiling
        report(0, 5)
    assert text.getvalue().splitlines()[1:] == ["compare: 0 of about 5 runs"]
