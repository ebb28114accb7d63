"""The recorded cells as rows of results.json and as the table people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

TABLE_WIDTH = 150
"""Columns that the table needs; where a pipe or a terminal has fewer, lines are longer than it."""


def rows(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One a cell, by rate and then by attainment."""
    found = [
        {
            **cell["key"],
            **{
                name: cell[name]
                for name in (
                    *("attainment", "interval", "missed_ttft", "missed_tbt", "failed", "ttft_ms", "tbt_ms"),
                    *("options", "device", "cpu_share", "load_average"),
                )
            },
            "classes": {
                row["slo_class"]: {
                    name: row[name] for name in ("attainment", "interval", "requests", "ttft_ms")
                }
                for row in cell["classes"]
            },
            "predictor": _quality(cell["state"]["predictor"] or {}),
        }
        for cell in cells
    ]
    return sorted(found, key=lambda row: (row["rate"], -row["attainment"]))


def _quality(predictor: dict[str, Any]) -> dict[str, Any]:
    """R2, MAE, MAE as a share of the mean batch, share under-predicted: overall and by scene, live."""
    return {"overall": predictor.get("overall"), **predictor.get("scenes", {})}


def table(found: Sequence[dict[str, Any]]) -> Table:
    """Attainment with 95 % intervals, by class, and latencies."""
    view = Table(title="By the client's clock (Wilson 95 %)", title_justify="left")
    classes = list(dict.fromkeys(name for row in found for name in row["classes"]))
    for heading in ("req/s", "policy", "attainment", *classes, "TTFT p50/p99 ms", "TBT p50/p99 ms"):
        view.add_column(heading, no_wrap=heading == "policy")
    rate = None
    for row in found:
        if rate not in (None, row["rate"]):
            view.add_section()
        rate = row["rate"]
        view.add_row(
            f"{rate:g}",
            row["policy"],
            _share(row),
            *(_share(row["classes"][name]) if name in row["classes"] else "-" for name in classes),
            *(f"{row[name]['p50']:,.0f} / {row[name]['p99']:,.0f}" for name in ("ttft_ms", "tbt_ms")),
        )
    return view


def _share(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{row['attainment']:.1%} [{low:.1%}, {high:.1%}]"
