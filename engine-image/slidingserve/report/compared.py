"""Beside the paper's figures: what `slidingserve compare` and `slidingserve goodput` measured, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from slidingserve.report import style
from slidingserve.report.commands import GOODPUT, MISSES, TIMES
from slidingserve.report.rows import Row, grouped, select
from slidingserve.report.tables import Table

_TIMES = dict(zip(TIMES, ("TTFT p50, s", "TTFT p99, s", "TBT p99, s"), strict=True))
CAPTIONS = {
    MISSES: (
        "Misses by rate",
        "Share of requests that miss a deadline, all draws pooled, with its 95 % interval, and the time to "
        "the first token. Every policy met the same arrivals.",
    ),
    GOODPUT: (
        "Goodput by policy",
        "The highest rate with at most 1 % of the requests missing a deadline, all draws pooled.",
    ),
}


def misses(rows: Sequence[Row]) -> tuple[Figure, Table] | None:
    """Misses and TTFT against the rate, a line a policy; None without rows of `compare`."""
    found = select(rows, figure=MISSES)
    shares = [row for row in found if row.metric == "violations_percent"]
    if not shares:
        return None
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for policy, group in grouped(shares, lambda row: row.policy).items():
        look = style.look(policy)
        line = sorted(group, key=_rate)
        values = [row.value for row in line]
        error = [
            [max(row.value - (row.value if row.ci_low is None else row.ci_low), 0.0) for row in line],
            [max((row.value if row.ci_high is None else row.ci_high) - row.value, 0.0) for row in line],
        ]
        rates = [_rate(row) for row in line]
        left.errorbar(rates, values, error, fmt=look.line + look.marker, color=look.colour, label=look.title)
        times = sorted(
            (row for row in found if row.policy == policy and row.metric == "ttft_p50_s"), key=_rate
        )
        right.plot(
            [_rate(row) for row in times], [row.value for row in times], look.line + look.marker,
            color=look.colour,
        )  # fmt: skip
    for axes, title in ((left, "requests that miss, %"), (right, _TIMES["ttft_p50_s"])):
        axes.set_xlabel("requests a second")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure, _table(found)


def goodput(rows: Sequence[Row]) -> tuple[Figure, Table] | None:
    """A bar a policy; None without rows of `goodput`."""
    found = select(rows, figure=GOODPUT, metric="goodput_qps")
    if not found:
        return None
    figure = Figure(figsize=(7, 1.2 + 0.45 * len(found)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(reversed(found)):
        look = style.look(row.policy)
        axes.barh(place, row.value, color=look.colour, hatch=look.hatch, edgecolor="white")
        axes.text(row.value, place, f" {row.value:.3g}", va="center")
    axes.set_yticks(range(len(found)), [style.look(row.policy).title for row in reversed(found)])
    axes.set_xlabel("goodput, requests a second")
    axes.set_xlim(left=0)
    axes.margins(x=0.12)
    cells = tuple((row.policy, row.criterion, f"{row.value:.3g}") for row in found)
    return figure, Table("Goodput", ("policy", "criterion", "requests a second"), cells)


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for (rate, policy), group in grouped(rows, lambda row: (_rate(row), row.policy)).items():
        by = {row.metric: row for row in group}
        share = by.get("violations_percent")
        interval = (
            f" [{share.ci_low:.2f}, {share.ci_high:.2f}]"
            if share and share.ci_low is not None and share.ci_high is not None
            else ""
        )
        times = [f"{by[metric].value:.3g}" if metric in by else "-" for metric in _TIMES]
        lines.append((f"{rate:.3g}", policy, f"{share.value:.2f}{interval}" if share else "-", *times))
    header = ("requests a second", "policy", "misses, % [95 %]", *_TIMES.values())
    return Table("Policies compared", header, tuple(lines))


def _rate(row: Row) -> float:
    return row.qps or 0.0
