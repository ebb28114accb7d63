"""Rows as tables of text: the paper's tables with its numbers beside ours. Drawn by ``render``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from slidingserve.report import paper, style
from slidingserve.report.intervals import Estimate, estimate, gain, possible
from slidingserve.report.rows import Row, grouped, select


@dataclass(frozen=True)
class Table:
    """Cells of text under a title."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Goodputs = dict[tuple[str, str, str], Estimate]
"""Goodput, requests a second, by model, workload and policy."""


def goodputs(rows: Sequence[Row], criterion: str) -> Goodputs:
    """Figure 4's estimates at each policy's chosen setting."""
    found = select(rows, figure="figure4", metric="goodput_qps", criterion=criterion, variant="")
    groups = grouped(found, lambda row: (row.model, row.workload, row.policy))
    return {key: estimate(group) for key, group in groups.items()}


def headline(rows: Sequence[Row], criterion: str = "overall") -> Table | None:
    """Goodput of the paper's three schedulers, ours beside the paper's, with the gains between them."""
    found = select(rows, figure="figure4", metric="goodput_qps", criterion=criterion, variant="")
    groups = grouped(found, lambda row: (row.model, row.workload, row.policy))
    lines = []
    for model, workload in _cells(goodputs(rows, criterion)):
        ours = [groups.get((model, workload, policy), []) for policy in paper.COMPARED]
        theirs = [paper.figure4(model, workload, policy) for policy in paper.COMPARED]
        cells = [
            f"{estimate(mine).text() if mine else '-'} | {_number(printed)}"
            for mine, printed in zip(ours, theirs, strict=True)
        ]
        edf, qoserve, sliding = ours
        cells.append(f"{_paired(sliding, edf)} | {_gain(theirs[2], theirs[0])}")
        cells.append(f"{_paired(sliding, qoserve)} | {_gain(theirs[2], theirs[1])}")
        lines.append((style.model(model), style.workload(workload), *cells))
    names = tuple(style.look(policy).title for policy in paper.COMPARED)
    header = ("model", "workload", *names, "SlidingServe over EDF, %", "SlidingServe over QoServe, %")
    title = f"Goodput in requests a second, ours | paper's ({style.CRITERIA[criterion]})"
    return Table(title, header, tuple(lines)) if lines else None


def everyone(rows: Sequence[Row], criterion: str) -> Table | None:
    """Goodput of every policy at its chosen setting, and that setting."""
    found = select(rows, figure="figure4", metric="goodput_qps", criterion=criterion, variant="")
    groups = grouped(found, lambda row: (row.model, row.workload, row.policy))
    lines = []
    for model, workload in _cells(goodputs(rows, criterion)):
        for policy in style.order({key[2] for key in groups if key[:2] == (model, workload)}):
            group = groups[model, workload, policy]
            summary = estimate(group)
            spread = f"{min(summary.points):.2f} to {max(summary.points):.2f}"
            head = (style.model(model), style.workload(workload), style.look(policy).title)
            lines.append((*head, summary.text(), spread, group[0].setting or "defaults", summary.method))
    header = ("model", "workload", "policy", "requests/s [95 %]", "lowest to highest", "setting", "interval")
    title = f"Every policy at its chosen setting ({style.CRITERIA[criterion]})"
    return Table(title, header, tuple(lines)) if lines else None


def settings(rows: Sequence[Row]) -> Table | None:
    """All settings that were compared, on the seed that served for nothing else: the median over its fits."""
    found = select(rows, figure="figure4", metric="goodput_qps", stage="choose")
    groups = grouped(found, lambda row: (row.model, row.workload, row.policy, row.setting))
    lines = []
    for (model, workload, policy, setting), group in groups.items():
        head = (style.model(model), style.workload(workload), style.look(policy).title, setting or "defaults")
        by_criterion = grouped(group, lambda row: row.criterion)
        cells = [
            f"{median(row.value for row in by_criterion[criterion]):.2f}"
            if criterion in by_criterion
            else "-"
            for criterion in style.CRITERIA
        ]
        lines.append((*head, *cells))
    header = ("model", "workload", "policy", "setting", "overall, requests/s", "in every class, requests/s")
    return Table("Settings compared, goodput on the choosing seed", header, tuple(lines)) if lines else None


def table4(rows: Sequence[Row]) -> Table | None:
    """Ablation: optimal load and violations at 3 requests a second, ours and the paper's."""
    found = select(rows, figure="table4", criterion="overall")
    lines = []
    before: float | None = None
    for scheme, printed in paper.TABLE_4.items():
        mine = [row for row in found if row.variant == scheme]
        load = _maybe([row for row in mine if row.metric == "goodput_qps"])
        misses = _maybe([row for row in mine if row.metric == "violations_percent"])
        if load is None and misses is None:
            continue
        lines.append(
            (
                scheme,
                load.text() if load else "-",
                _gain(load.value if load else None, before),
                f"{printed.optimal_qps:.2f}",
                misses.text(1) if misses else "-",
                f"{printed.violations_percent:.1f}",
            )
        )
        before = load.value if load else None
    header = (
        "scheme",
        "optimal load, requests/s",
        "gain",
        "paper's load",
        "misses at 3/s, %",
        "paper's misses, %",
    )
    return Table("Table 4: what each part adds (mixed-v1)", header, tuple(lines)) if lines else None


def table5(rows: Sequence[Row], *, scenes: bool = False) -> Table | None:
    """The predictor's error by hardware: over all batches, or by scene."""
    found = [
        row
        for row in select(rows, figure="table5")
        if row.metric in _FIDELITY and (row.scene != "all") == scenes
    ]
    lines = []
    groups = grouped(found, lambda row: (row.hardware, row.variant, row.setting, row.scene))
    for (hardware, variant, setting, scene), group in groups.items():
        by_metric = {metric: _maybe([row for row in group if row.metric == metric]) for metric in _FIDELITY}
        printed = paper.table5(hardware) if scene == "all" else None
        theirs = f"{printed.mae_ms:.2f} / {printed.rmse_ms:.2f} / {printed.r2:.4f}" if printed else "-"
        cells = [
            found_one.text(digits) if (found_one := by_metric[metric]) else "-"
            for metric, digits in _FIDELITY.items()
        ]
        lines.append((hardware, variant, setting or "defaults", scene, *cells, theirs))
    header = (
        *("hardware profile", "batches", "fit", "scene", "MAE, ms", "RMSE, ms", "R2"),
        *("MAE, % of the mean", "under-predicted, %", "paper's MAE / RMSE / R2"),
    )
    title = f"Table 5: the batch latency predictor{', by scene' if scenes else ''}"
    return Table(title, header, tuple(lines)) if lines else None


def figure6(rows: Sequence[Row]) -> Table | None:
    """Misses over the switching load, ours and the paper's."""
    found = select(rows, figure="figure6", metric="violations_percent", criterion="overall")
    groups = grouped(found, lambda row: row.policy)
    lines = [
        (
            style.look(policy).title,
            estimate(groups[policy], possible("violations_percent")).text(1),
            _number(paper.FIGURE_6.get(policy)),
        )
        for policy in style.order(set(groups))
    ]
    return (
        Table("Misses over the switching load, %", ("policy", "ours", "paper"), tuple(lines))
        if lines
        else None
    )


def variants(rows: Sequence[Row], figure: str, title: str) -> Table | None:
    """Goodput of one experiment's variants, with the change against the first of the policy."""
    found = select(rows, figure=figure, metric="goodput_qps", criterion="overall")
    groups = grouped(found, lambda row: (row.hardware, row.workload, row.policy, row.variant))
    first: dict[tuple[str, str, str], float] = {}
    lines = []
    for (hardware, workload, policy, variant), group in groups.items():
        summary = estimate(group)
        base = first.setdefault((hardware, workload, policy), summary.value)
        spread = f"{min(summary.points):.2f} to {max(summary.points):.2f}"
        head = (hardware, style.workload(workload), style.look(policy).title, variant)
        lines.append((*head, summary.text(), spread, _gain(summary.value, base)))
    header = ("hardware", "workload", "policy", "variant", "requests/s [95 %]", "lowest to highest", "change")
    return Table(title, header, tuple(lines)) if lines else None


_FIDELITY = {"mae_ms": 2, "rmse_ms": 2, "r2": 4, "mae_percent": 1, "under_percent": 1}


def _cells(found: Goodputs) -> list[tuple[str, str]]:
    pairs = {key[:2] for key in found}
    return [
        (model, workload)
        for model in sorted({pair[0] for pair in pairs}, reverse=True)
        for workload in style.workloads({pair[1] for pair in pairs if pair[0] == model})
    ]


def _maybe(rows: Sequence[Row]) -> Estimate | None:
    return estimate(rows, possible(rows[0].metric)) if rows else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _paired(of: Sequence[Row], over: Sequence[Row]) -> str:
    found = gain(of, over)
    return "-" if found is None else found.text(0, signed=True)


def _gain(value: float | None, base: float | None) -> str:
    if value is None or not base:
        return "-"
    return f"{value / base - 1:+.0%}".replace("%", " %")
