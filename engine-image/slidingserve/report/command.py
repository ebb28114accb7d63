"""`slidingserve report`: the command line over rows and page.

Exit status: 0 when the page was written, 2 for arguments or results that cannot be used.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from slidingserve.command_line import complain
from slidingserve.report.rows import ReportError, Results, load


def report_command(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS.json",
            help="Rows, as `make bench-paper`, or `compare` and `goodput` with --output, write them.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where index.html and the PNGs go.")
    ] = Path("report"),
    notes: Annotated[
        Path | None,
        typer.Option("--notes", metavar="FILE.md", help="Text about deviations, put into the page."),
    ] = None,
) -> None:
    """Draw results as PNGs and one HTML page: the paper's Figures 4, 5, 6 and Tables 4, 5, or policies
    compared.

    slidingserve report build/bench-paper/results.json --out report

    slidingserve report compare.json
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        left_out = draw(load(results), out, _text(notes))
    except ReportError as error:
        complain("slidingserve report", error)
        raise typer.Exit(2) from None
    for name in left_out:
        console.print(f"{name}: left out, the results have no rows for it")
    console.print(f"report: {out / 'index.html'}")


def draw(results: Results, out: Path, notes: str) -> list[str]:
    """Write the report; ReportError where matplotlib is missing or `out` cannot be written."""
    if find_spec("matplotlib") is None:
        raise ReportError("drawing needs matplotlib; install it with: pip install 'slidingserve[report]'")
    from slidingserve.report.page import write

    try:
        return write(results, out, notes)
    except OSError as error:
        raise ReportError(
            f"--out {out}: {error.strerror or error}; name a directory that can be written"
        ) from None


def _text(notes: Path | None) -> str:
    if notes is None:
        return ""
    try:
        return notes.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"--notes {notes}: {error}; name a text file") from None
