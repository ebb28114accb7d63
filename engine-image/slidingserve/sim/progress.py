"""How far the runs are and how long the rest will take, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slidingserve.sim.pool import Report


@contextmanager
def reported(title: str, console: Console | None = None) -> Iterator[Report]:
    """A bar; what it reports on says how many runs are made and left."""
    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of about {task.total} runs"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    begin = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None, left="")

        def report(made: int, left: int) -> None:
            # Runs of a search are alike, so the mean so far is a fair guess of the next ones.
            seconds = (time.monotonic() - begin) / max(made, 1) * left
            progress.update(task, completed=made, total=made + left, left=duration(seconds) + " left")

        yield report


def duration(seconds: float) -> str:
    """In the one unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
