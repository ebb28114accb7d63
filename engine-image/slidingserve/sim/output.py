"""Results to people and files: JSON whole, CSV by row, tables on the terminal. Errors in one line."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from slidingserve.command_line import interruptible, status_of
from slidingserve.core.columns import BRANCHES
from slidingserve.predictor.features import Features, Scene
from slidingserve.sim.config import SimError
from slidingserve.sim.result import Result, Steps
from slidingserve.sim.store import Store
from slidingserve.whole import try_to_write, whole

_PIPED_WIDTH = 160
_NAMES = ("policy", "class")
"""Columns of names, from the left."""
_WIDEST = 10_000
SCENES = tuple(scene.value for scene in Scene)


@contextmanager
def said_in_one_line(command: str, store: Store | None = None) -> Iterator[None]:
    """Turn what a person can mend into one line and exit status 2, and an interrupt or SIGTERM into one that
    says how to go on."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        with interruptible():
            yield
    except ValueError as error:  # SimError, WorkloadError, an unknown profile
        console.print(f"slidingserve {command}: {error}", style="red")
        raise typer.Exit(2) from None
    except (MemoryError, BrokenProcessPool) as error:
        console.print(
            f"slidingserve {command}: {out_of_memory(error)}; {_kept(store)}; give fewer --requests or "
            "--workers, or a smaller --kv-tokens",
            style="red",
        )
        raise typer.Exit(2) from None
    except KeyboardInterrupt as error:
        console.print(f"slidingserve {command}: interrupted; {_kept(store)}", style="red")
        raise typer.Exit(status_of(error)) from None


def out_of_memory(error: MemoryError | BrokenProcessPool) -> str:
    """The memory as the cause, as far as that is known."""
    if isinstance(error, MemoryError):
        return "the memory ran out"
    return "a process that simulates was killed, as the system does when the memory runs out"


def _kept(store: Store | None) -> str:
    if store is None or store.directory is None:
        return "nothing was kept"
    return f"finished runs are in {store.directory}; the same command goes on from there"


def check_writable(*paths: Path | None) -> None:
    """Refuse before hours of work what cannot be written after them. Raises SimError."""
    asked = [path for path in paths if path is not None]
    for place, path in enumerate(asked):
        if path.resolve() in [other.resolve() for other in asked[:place]]:
            raise SimError(f"{path}: is asked for twice; give each result a file of its own")
        try:
            try_to_write(path)
        except OSError as error:
            raise SimError(f"{path}: cannot be written ({error.strerror}); name another file") from None


def write_json(path: Path, document: Any) -> None:
    """The whole result."""
    text = json.dumps(_plain(document), indent=1, allow_nan=False) + "\n"
    with _written(path) as place:
        place.write_text(text)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One line a row, columns in the order of their first occurrence; nested values as JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with _written(path) as place, place.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _cell(value) for key, value in row.items()})


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Where to write, whole or not at all; what the disk refuses, as one sentence. Raises SimError."""
    try:
        with whole(path) as place:
            yield place
    except OSError as error:
        raise SimError(f"{path}: cannot be written ({error.strerror}); name another file") from None


def _plain(value: Any) -> Any:
    """For JSON, which has no number for the rate of requests that all come at once: null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def request_rows(result: Result) -> list[dict[str, Any]]:
    """Every request of a run."""
    trace = result.trace
    columns = {
        "arrival_s": trace.arrival,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "ttft_limit_s": result.ttft_limit,
        "tbt_limit_s": result.tbt_limit,
        "ttft_s": result.ttft,
        "tpot_s": result.tpot,
        "longest_gap_s": result.longest_gap,
        "e2e_s": result.end_to_end,
        "missed_ttft": result.missed_ttft,
        "late_tokens": result.late_tokens,
        "preempted": result.preempted,
        "relegated": result.relegated,
    }
    classes = trace.classes()
    lists = {name: column.tolist() for name, column in columns.items()}
    return [
        {"request": row, "slo_class": classes[row], **{name: values[row] for name, values in lists.items()}}
        for row in range(len(trace))
    ]


def step_rows(steps: Steps) -> list[dict[str, Any]]:
    """Every batch of a run, with its seven features."""
    names = [field.name for field in fields(Steps) if field.name != "features"]
    columns = {name: getattr(steps, name).tolist() for name in names}
    for index, name in enumerate(Features._fields):
        columns[name] = steps.features[:, index].tolist()
    columns["scene"] = [SCENES[scene] for scene in columns["scene"]]
    columns["branch"] = [BRANCHES[branch] for branch in columns["branch"]]
    return [{name: values[row] for name, values in columns.items()} for row in range(len(steps))]


def show(console: Console, title: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    """A table: `columns` from key to heading; numbers to three significant digits. Where the terminal is too
    narrow for whole numbers, a block of lines for each row instead: a digit cut off is a wrong number."""
    if not console.is_terminal:
        console.width = max(console.width, _PIPED_WIDTH)  # a file or a pipe does not fold lines
    cells = [[_text(row.get(key, "")) for key in columns] for row in rows]
    headings = list(columns.values())
    for stacked in (headings, [heading.replace(" ", "\n") for heading in headings]):
        table = Table(
            title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=0
        )
        for key, heading in zip(columns, stacked, strict=True):
            table.add_column(heading, justify="left" if key in _NAMES else "right", no_wrap=True)
        for line in cells:
            table.add_row(*line)
        if Measurement.get(console, console.options.update(width=_WIDEST), table).maximum <= console.width:
            console.print(table)
            return
    _blocks(console, title, cells, headings)


def _blocks(console: Console, title: str, cells: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    console.print(title, style="bold")
    for line in cells:
        block = Table.grid(padding=(0, 2))
        for heading, cell in zip(headings, line, strict=True):
            block.add_row(heading, cell)
        console.print("", block)


def ranged(row: dict[str, Any], key: str) -> str:
    """A value with its interval, as people read it."""
    if row[key] is None:
        return "-"
    return f"{row[key]:.2f} [{row[key + '_low']:.2f},{row[key + '_high']:.2f}]"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
