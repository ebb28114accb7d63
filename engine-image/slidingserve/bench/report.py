"""Last stage of the bench: the table people read and the JSON that programs read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slidingserve.bench.client import Result
from slidingserve.bench.score import PERCENTILES, ClassScore

# Client-side waiting for a slot that makes the load differ from the workload that was asked for, in seconds.
_LAG_SECONDS = 0.25


def table(scores: Sequence[ClassScore]) -> Table:
    """Attainment and latency percentiles by class; as narrow as an old terminal."""
    view = Table(title="Serving by class, on the client's clock", title_justify="left")
    for heading in ("class", "ok / sent", "attainment", "ms"):
        view.add_column(heading)
    for percentile in PERCENTILES:
        view.add_column(f"p{percentile}", justify="right")
    for score in scores:
        attained = "-" if score.attainment is None else f"{score.attainment:.1%}"
        head = [score.slo_class, f"{score.ok} / {score.requests}", attained]
        parts = {"TTFT": score.ttft_ms, "TBT": score.tbt_ms, "TPOT": score.tpot_ms, "E2E": score.e2e_ms}
        for name, part in parts.items():
            view.add_row(*head, name, *(f"{value:.1f}" for value in part.values()))
            head = ["", "", ""]
        view.add_section()
    return view


def totals(results: Sequence[Result], duration: float) -> dict[str, Any]:
    """Counts and rates of a run of ``duration`` seconds."""
    done = [result for result in results if result.ok]
    tokens = sum(len(result.token_times) for result in done)
    return {
        "requests": len(results),
        "ok": len(done),
        "failed": len(results) - len(done),
        "duration_s": round(duration, 3),
        "request_rate": round(len(done) / duration, 3) if duration > 0 else 0.0,
        "output_token_rate": round(tokens / duration, 2) if duration > 0 else 0.0,
        "send_lag_max_s": round(max((r.sent - r.arrival for r in results), default=0.0), 3),
    }


def document(
    results: Sequence[Result], scores: Sequence[ClassScore], config: dict[str, Any], duration: float
) -> dict[str, Any]:
    """Everything a later comparison needs: configuration with seed, totals, classes, one row a request."""
    return {
        "schemaVersion": 1,
        "config": config,
        "totals": totals(results, duration),
        "classes": [score.row() for score in scores],
        "requests": [asdict(result) for result in results],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def show(console: Console, results: Sequence[Result], scores: Sequence[ClassScore], duration: float) -> None:
    """Print the table, the totals, and each kind of failure once with its count."""
    console.print(table(scores))
    total = totals(results, duration)
    console.print(
        f"{total['ok']} of {total['requests']} requests in {duration:.1f} s, "
        f"{total['request_rate']:g} requests/s, {total['output_token_rate']:g} output tokens/s"
    )
    for message, count in Counter(r.error for r in results if r.error).most_common(5):
        console.print(f"failed: {count} x {message}", style="red", markup=False, highlight=False)
    if total["send_lag_max_s"] > _LAG_SECONDS:
        console.print(
            f"note: a request waited {total['send_lag_max_s']:g} s for a free slot before it was sent; "
            "raise --concurrency or lower the rate for the load that was asked for"
        )
