"""Last stage of the bench: the tables people read and the JSON that programs read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slidingserve.bench.client import Result
from slidingserve.bench.score import PERCENTILES, ClassScore, Promises, record, score
from slidingserve.bench.summary import LATENCIES, summary
from slidingserve.whole import whole

# Client-side waiting for a slot that makes the load differ from the workload that was asked for, in seconds.
_LAG_SECONDS = 0.25


def table(scores: Sequence[ClassScore]) -> Table:
    """Attainment with its 95 % interval, and latency percentiles by class; as narrow as an old terminal."""
    view = Table(title="Serving by class, on the client's clock", title_justify="left")
    for heading in ("class", "ok / sent", "attainment", "ms"):
        view.add_column(heading)
    for percentile in PERCENTILES:
        view.add_column(f"p{percentile}", justify="right")
    for one in scores:
        head = [one.slo_class, f"{one.ok} / {one.requests}", "-"]
        second = ["", "", ""]
        if one.attainment is not None and one.interval is not None:
            head[2] = f"{one.attainment:.1%}"
            second[2] = "{:.1%}-{:.1%}".format(*one.interval)
        parts = {"TTFT": one.ttft_ms, "TBT": one.tbt_ms, "TPOT": one.tpot_ms, "E2E": one.e2e_ms}
        for name, part in parts.items():
            view.add_row(*head, name, *(f"{value:.1f}" for value in part.values()))
            head, second = second, ["", "", ""]
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
        "short": sum(len(result.token_times) < result.output_tokens for result in done),
        "duration_s": round(duration, 3),
        "request_rate": round(len(done) / duration, 3) if duration > 0 else 0.0,
        "output_token_rate": round(tokens / duration, 2) if duration > 0 else 0.0,
        "send_lag_max_s": round(max((r.sent - r.arrival for r in results), default=0.0), 3),
    }


def document(
    results: Sequence[Result],
    scores: Sequence[ClassScore],
    config: dict[str, Any],
    duration: float,
    promises: Promises | None = None,
) -> dict[str, Any]:
    """Everything a later comparison needs: configuration with seed, totals, classes, one row a request.

    ``summary`` has the names that ``vllm bench serve`` uses.
    """
    given = promises or {}
    return {
        "schemaVersion": 1,
        "config": config,
        "totals": totals(results, duration),
        "summary": summary(results, duration, given),
        "overall": score(results, "(all)", given).row(),
        "classes": [one.row() for one in scores],
        "requests": [record(result, given) for result in results],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as place:
        place.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def summary_table(figures: dict[str, Any]) -> Table:
    """The whole run in the lines that users of ``vllm bench serve`` know."""
    view = Table(title="Serving benchmark", title_justify="left", show_header=False)
    view.add_column("what")
    view.add_column("value", justify="right")
    for key, title in (
        ("completed", "successful requests"),
        ("failed", "failed requests"),
        ("duration", "duration (s)"),
        ("total_input_tokens", "input tokens"),
        ("total_output_tokens", "generated tokens"),
        ("request_throughput", "requests/s"),
        ("request_goodput", "requests/s that kept their promise"),
        ("output_throughput", "generated tokens/s"),
        ("total_token_throughput", "tokens/s"),
        ("max_concurrent_requests", "most requests open at once"),
    ):
        if figures.get(key) is not None:
            view.add_row(title, f"{figures[key]:,.2f}".removesuffix(".00"))
    for key, title in LATENCIES.items():
        if f"mean_{key}_ms" in figures:
            values = (figures[f"{statistic}_{key}_ms"] for statistic in ("mean", "median", "p99"))
            view.add_row(f"{title}: mean, median, p99 (ms)", ", ".join(f"{value:.1f}" for value in values))
    return view


def show(
    console: Console,
    results: Sequence[Result],
    scores: Sequence[ClassScore],
    duration: float,
    promises: Promises | None = None,
) -> None:
    """Print the tables, the totals, and each kind of failure once with its count."""
    console.print(summary_table(summary(results, duration, promises or {})))
    console.print(table(scores))
    total = totals(results, duration)
    console.print(
        f"{total['ok']} of {total['requests']} requests in {duration:.1f} s, "
        f"{total['request_rate']:g} requests/s, {total['output_token_rate']:g} output tokens/s"
    )
    for message, count in Counter(r.error for r in results if r.error).most_common(5):
        said = f"failed: {count} x {message}"
        console.print(said, style="red", markup=False, highlight=False, soft_wrap=True)
    if total["short"]:
        console.print(f"note: {total['short']} answers ended before their length: the server stops early")
    if total["send_lag_max_s"] > _LAG_SECONDS:
        console.print(
            f"note: a request left {total['send_lag_max_s']:g} s late, for want of a free slot or of a free "
            "client; raise --concurrency or lower the rate for the load that was asked for"
        )
