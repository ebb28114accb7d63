"""Files of `slidingserve compare` and `slidingserve goodput`, as the report's rows.

They hold a row for each policy and rate; the report's rows are one number each. Before `rows`, which checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MISSES, GOODPUT = "compare", "goodput"
"""The figures that these rows are for."""
TIMES = ("ttft_p50_s", "ttft_p99_s", "tbt_p99_s")


def is_of_command(document: Any) -> bool:
    """Whether a document is what `compare` or `goodput` writes, and not one of the report's own rows."""
    rows = document.get("rows") if isinstance(document, dict) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    return (
        isinstance(first, dict)
        and "figure" not in first
        and "policy" in first
        and not {"fewer_violations_percent", "goodput_qps"}.isdisjoint(first)
    )


def rows_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The report's rows of such a document, not yet checked."""
    seeds = document.get("seeds")
    about: dict[str, Any] = {
        "model": document.get("hardware"),
        "hardware": document.get("hardware"),
        "workload": document.get("workload"),
        "options": {},
        "seed": seeds[0] if isinstance(seeds, list) and seeds else 0,
        "fit": None,
    }
    for row in document["rows"]:
        if not isinstance(row, dict):
            yield row
            continue
        kind = GOODPUT if "goodput_qps" in row else MISSES
        metrics = ("goodput_qps",) if kind == GOODPUT else ("violations_percent", *TIMES)
        for metric in metrics:
            if metric not in row:
                continue
            yield {
                **about,
                "figure": kind,
                "policy": row.get("policy"),
                "criterion": row.get("criterion", "overall"),
                "metric": metric,
                "value": row[metric],
                "qps": row.get("qps"),
                "n": row.get("requests"),
                "ci_low": row.get(f"{metric}_low") if kind == MISSES else None,
                "ci_high": row.get(f"{metric}_high") if kind == MISSES else None,
            }
