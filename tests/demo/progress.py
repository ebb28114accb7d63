"""One line for a block in progress: on a terminal it is rewritten, in a log it appears now and then."""

from __future__ import annotations

import time

from rich.console import Console
from slidingserve.bench.replay import Progress

from tests.demo.load import Load

_LOG_SECONDS = 20.0


class Line:
    """Observer of a replay."""

    def __init__(self, console: Console, title: str, load: Load) -> None:
        self._console = console
        self._title = title
        self._expected = load.items()[-1].arrival
        self._told = time.monotonic()
        console.print(f"    {title}: {load.requests} requests, about {self._expected:.0f} s")

    def __call__(self, state: Progress) -> None:
        """Say where the block stands."""
        last = state.done == state.total
        text = (
            f"    {self._title}: {state.done}/{state.total} done, {state.running} open, {state.elapsed:.0f} s"
        )
        if self._console.is_terminal:
            self._console.print(text, end="\n" if last else "\r", markup=False)
        elif last or time.monotonic() - self._told > _LOG_SECONDS:
            self._told = time.monotonic()
            self._console.print(text, markup=False)
