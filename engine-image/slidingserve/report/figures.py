"""The paper's Figures 4, 5 and 6 from rows, one matplotlib figure each; None where there are no rows for it.

Each policy has one colour, marker and line in all of them (``style``). Axes carry units; nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from slidingserve.report import paper, style, tables
from slidingserve.report.intervals import Estimate, estimate
from slidingserve.report.rows import Row, grouped, select

mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in a name is one
    }
)

_LATENCIES = {"ttft_p50_s": "TTFT p50, s", "ttft_p95_s": "TTFT p95, s", "ttft_p99_s": "TTFT p99, s"}
_MISSES = {"violations_percent": "requests that miss, %"}


def figure4(rows: Sequence[Row], criterion: str = "overall") -> Figure | None:
    """Bars of goodput by workload and policy, a panel a model; dots: seeds or fits, diamonds: the paper."""
    found = tables.goodputs(rows, criterion)
    models = sorted({key[0] for key in found}, reverse=True)
    if not models:
        return None
    figure = Figure(figsize=(10, 3.4 * len(models)), layout="constrained")
    for axes, model in zip(np.ravel(figure.subplots(len(models), 1)), models, strict=True):
        _bars(axes, {key[1:]: value for key, value in found.items() if key[0] == model}, model)
    figure.suptitle(f"Figure 4: goodput ({style.CRITERIA[criterion]})")
    return figure


def _bars(axes: Axes, found: dict[tuple[str, str], Estimate], model: str) -> None:
    policies = style.order({policy for _, policy in found})
    workloads = style.workloads({workload for workload, _ in found})
    width = 0.8 / len(policies)
    for i, policy in enumerate(policies):
        look = style.look(policy)
        for x, workload in enumerate(workloads):
            if (workload, policy) not in found:
                continue
            summary = found[workload, policy]
            place = x + (i - (len(policies) - 1) / 2) * width
            label = look.title if x == 0 else None
            axes.bar(
                place,
                summary.value,
                0.92 * width,
                color=look.colour,
                hatch=look.hatch,
                edgecolor="white",
                label=label,
            )
            if summary.low is not None and summary.high is not None:
                axes.plot([place, place], [summary.low, summary.high], color="black", linewidth=1)
            if len(summary.points) > 1:
                dots = np.full(len(summary.points), place)
                axes.plot(dots, summary.points, ".", color="black", markersize=3)
            printed = paper.figure4(model, workload, policy)
            if printed is not None:
                axes.plot(place, printed, "d", color="white", markeredgecolor="black", markersize=6, zorder=5)
    axes.plot([], [], "d", color="white", markeredgecolor="black", label="the paper's value")
    axes.set_xticks(range(len(workloads)), [style.workload(name) for name in workloads])
    axes.set_ylabel("requests a second")
    axes.set_ylim(bottom=0)
    axes.set_title(style.model(model), loc="left")
    axes.legend(ncols=3, frameon=False, fontsize=8)


def figure5(rows: Sequence[Row]) -> Figure | None:
    """Latency percentiles and misses against the rate, a column a workload; bands run from seed to seed."""
    metrics = {**_LATENCIES, **_MISSES}
    found = [
        row
        for row in select(rows, figure="figure5", criterion="overall")
        if row.metric in metrics and row.qps
    ]
    if not found:
        return None
    workloads = style.workloads({row.workload for row in found})
    figure = Figure(figsize=(2.9 * len(workloads) + 0.6, 9.2), layout="constrained")
    panels = figure.subplots(len(metrics), len(workloads), squeeze=False, sharex="col")
    for column, workload in enumerate(workloads):
        for line, (metric, title) in enumerate(metrics.items()):
            axes = panels[line, column]
            _curves(axes, [row for row in found if row.workload == workload and row.metric == metric])
            if metric in _LATENCIES:
                _seconds(axes)
            if column == 0:
                axes.set_ylabel(title)
        panels[0, column].set_title(style.workload(workload))
        panels[-1, column].set_xlabel("requests a second")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), len(workloads) + 1), frameon=False
    )
    figure.suptitle(f"Figure 5: latency and misses under overload, {style.model(found[0].model)}")
    return figure


def _seconds(axes: Axes) -> None:
    """A logarithmic axis with 0.2, 0.5, 1, 2, 5 ... written out."""
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))


def _curves(axes: Axes, rows: Sequence[Row]) -> None:
    for policy in style.order({row.policy for row in rows}):
        look = style.look(policy)
        points = grouped(sorted((row for row in rows if row.policy == policy), key=_rate), _rate)
        rates = np.array(list(points))
        values = [np.array([row.value for row in group]) for group in points.values()]
        axes.plot(
            rates,
            [float(np.median(v)) for v in values],
            look.line,
            color=look.colour,
            marker=look.marker,
            markersize=4,
            linewidth=1.2,
            label=look.title,
        )
        axes.fill_between(
            rates, [v.min() for v in values], [v.max() for v in values], color=look.colour, alpha=0.15
        )
    axes.grid(alpha=0.25)


def figure6(rows: Sequence[Row]) -> Figure | None:
    """Requests that have missed so far, over time, under a load that switches; high load is shaded."""
    found = select(rows, figure="figure6", metric="violations_cumulative", criterion="overall")
    if not found:
        return None
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    _shade(axes, found)
    for policy in style.order({row.policy for row in found}):
        look = style.look(policy)
        at = grouped(sorted((row for row in found if row.policy == policy), key=_time), _time)
        values = [np.array([row.value for row in group]) for group in at.values()]
        label = f"{look.title}{_share(rows, policy)}"
        times = np.array(list(at))
        axes.plot(times, [v.mean() for v in values], look.line, color=look.colour, linewidth=1.6, label=label)
        axes.fill_between(
            times, [v.min() for v in values], [v.max() for v in values], color=look.colour, alpha=0.15
        )
    axes.set_xlabel("time of arrival, s")
    axes.set_ylabel("requests that missed so far")
    axes.set_title("Figure 6: misses under a switching load (high load shaded)", loc="left")
    axes.legend(frameon=False)
    return figure


def _share(rows: Sequence[Row], policy: str) -> str:
    found = select(rows, figure="figure6", metric="violations_percent", criterion="overall", policy=policy)
    printed = paper.FIGURE_6.get(policy)
    theirs = f", paper {printed:.1f} %" if printed is not None else ""
    return f": {estimate(found).value:.1f} %{theirs}" if found else ""


def _shade(axes: Axes, rows: Sequence[Row]) -> None:
    """Shade the times at which the rows' rate is the highest of all; rows without a rate shade nothing."""
    rates = {_time(row): row.qps for row in rows if row.qps is not None}
    if len(set(rates.values())) < 2:
        return
    high = max(rates.values())
    times = sorted(rates)
    for start, end in pairwise(times):
        if rates[start] == high:
            axes.axvspan(start, end, color="#000000", alpha=0.07, linewidth=0)


def slo_base(rows: Sequence[Row]) -> Figure | None:
    """Goodput against the serving overhead that the TTFT promise's base includes."""
    found = select(rows, figure="slo_base", metric="goodput_qps", criterion="overall")
    if not found:
        return None
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for policy in style.order({row.policy for row in found}):
        look = style.look(policy)
        groups = grouped((row for row in found if row.policy == policy), lambda row: row.slo_base_ms)
        bases = sorted(groups)
        summaries = [estimate(groups[base]) for base in bases]
        axes.plot(
            bases,
            [s.value for s in summaries],
            look.line,
            color=look.colour,
            marker=look.marker,
            label=look.title,
        )
        low = [s.value if s.low is None else s.low for s in summaries]
        high = [s.value if s.high is None else s.high for s in summaries]
        axes.fill_between(bases, low, high, color=look.colour, alpha=0.15)
    axes.set_xlabel("serving overhead in the base of the TTFT promise, ms")
    axes.set_ylabel("goodput, requests a second")
    axes.set_ylim(bottom=0)
    axes.set_title("What the base of the promise does (mixed-v1)", loc="left")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _rate(row: Row) -> float:
    return row.qps or 0.0


def _time(row: Row) -> float:
    return row.time_s or 0.0
