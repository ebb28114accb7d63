"""Draws the README's picture from the numbers in docs/results.md: `python -m benchmarks.picture`.

What is drawn is the table of Figure 5 there (requests that miss, by rate), in the report's colours and marks.
The table is the recorded result; the picture is made anew when it changes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from slidingserve.report import style

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results.md"
PICTURE = ROOT / "docs" / "misses.svg"
POLICIES = {
    "SlidingServe": "slidingserve_paper",
    "QoServe": "qoserve",
    "Sarathi-EDF": "sarathi_edf",
    "vLLM's order": "fcfs",
}
"""The table's columns."""

Curves = Mapping[str, list[tuple[float, float]]]


def read(text: str, workload: str = "mixed-v1") -> Curves:
    """(requests a second, percent missed) by policy, from the table below the heading of Figure 5.

    Raises ValueError if the table or the workload's row is not there.
    """
    section = text.partition("(Figure 5")[2].partition("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    row = next((cells for cells in lines if cells[0] == workload), None)
    if row is None:
        raise ValueError(f"docs/results.md has no row {workload!r} in the table of Figure 5")
    heads = next(cells for cells in lines if "SlidingServe" in cells)
    rates = _numbers(row[1])
    columns = dict(zip(heads[-len(POLICIES) :], row[-len(POLICIES) :], strict=True))
    return {POLICIES[head]: list(zip(rates, _numbers(cell), strict=True)) for head, cell in columns.items()}


def draw(curves: Curves) -> Figure:
    """Percent of requests that miss, against the rate; lower is better."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(7.2, 3.1), layout="constrained")
    figure.patch.set_facecolor("white")
    axes = figure.subplots()
    for policy in style.order(set(curves)):
        look = style.look(policy)
        rates, missed = zip(*curves[policy], strict=True)
        axes.plot(rates, missed, look.line, color=look.colour, marker=look.marker, label=look.title)
    axes.set_xlabel("requests a second")
    axes.set_ylabel("requests with a late token, %")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.set_title(
        "Simulated: Qwen2.5-7B on two RTX 3090, chats and paper summaries 3:1", loc="left", fontsize=9
    )
    return figure


def svg(figure: Figure) -> str:
    """The figure as text, the same for the same numbers."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "slidingserve", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)


def _numbers(cell: str) -> list[float]:
    return [float(number) for number in cell.split(",")]


if __name__ == "__main__":
    PICTURE.write_text(svg(draw(read(RESULTS.read_text()))))
    print(f"written: {PICTURE.relative_to(ROOT)}")
