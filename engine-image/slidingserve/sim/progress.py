"""How far the runs are and how long the rest will take, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slidingserve.sim.pool import Report

_SECONDS_BETWEEN_LINES = 10.0
_SIMULATING = "simulating (the very first run compiles for about a minute)"


@contextmanager
def reported(title: str, console: Console | None = None) -> Iterator[Report]:
    """A bar; in a pipe or a file a line at once, since the very first run compiles, and one every ten
    seconds. `Report` says how many runs are made and left."""
    console = console or Console(stderr=True, soft_wrap=True, highlight=False)
    begin = time.monotonic()

    def rest(made: int, left: int) -> str:
        # Runs of a search are alike, so the mean so far is a fair guess of the next ones.
        return duration((time.monotonic() - begin) / made * left) + " left" if made else ""

    if not console.is_terminal:
        console.print(f"{title}: {_SIMULATING}")
        yield _lines(title, console, rest)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of about {task.total} runs"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None, left="")

        def report(made: int, left: int) -> None:
            progress.update(task, completed=made, total=made + left, left=rest(made, left))

        yield report


@contextmanager
def waiting() -> Iterator[None]:
    """While a single run is made: a spinner, where somebody looks on."""
    with Console(stderr=True, highlight=False).status(_SIMULATING):
        yield


def _lines(title: str, console: Console, rest: Callable[[int, int], str]) -> Report:
    said = time.monotonic()

    def report(made: int, left: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            parts = f"{title}: {made} of about {made + left} runs", rest(made, left)
            console.print(", ".join(filter(None, parts)))

    return report


def duration(seconds: float) -> str:
    """In the one unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun: 1 process, 2 processes."""
    return f"{number} {one if number == 1 else more}"
