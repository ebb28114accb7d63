"""Figures and tables as pictures."""

from __future__ import annotations

import base64
import io
import textwrap

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from slidingserve.report.tables import Table

_DPI = 150
_WRAP = 26


def png(figure: Figure) -> bytes:
    """The figure as a PNG without a date inside: same rows, same bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
    return out.getvalue()


def data_uri(image: bytes) -> str:
    """A PNG for the `src` of an image in a page that needs no other file."""
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def table_figure(table: Table) -> Figure:
    """The table as a picture, for slides; columns as wide as their longest line of text."""
    lines = [[textwrap.fill(cell, _WRAP) for cell in line] for line in (table.header, *table.rows)]
    widths = [
        max(len(part) for line in lines for part in line[i].split("\n")) + 3 for i in range(len(table.header))
    ]
    heights = [1.0 + 0.8 * max(cell.count("\n") for cell in line) for line in lines]
    figure = Figure(figsize=(0.085 * sum(widths) + 0.2, 0.27 * (sum(heights) + 2)), layout="constrained")
    axes = figure.subplots()
    axes.axis("off")
    axes.set_title(table.title, loc="left", fontsize=10)
    drawn = axes.table(
        cellText=lines,
        colWidths=[width / sum(widths) for width in widths],
        cellLoc="left",
        bbox=Bbox.unit(),
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    for (line, _), cell in drawn.get_celld().items():
        cell.set_height(heights[line] / sum(heights))
        cell.set_linewidth(0.4)
        if line == 0:
            cell.set_facecolor("#eeeeee")
            cell.set_text_props(weight="bold")
    return figure
