"""What the report shows, in order: each section's figure, table and caption, from the rows that are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from slidingserve.report import captions, commands, compared, figures, render, tables
from slidingserve.report.rows import Results, Row
from slidingserve.report.tables import Table


@dataclass(frozen=True)
class Section:
    """One entry of the page."""

    name: str
    """Also the picture's file name, without .png."""
    title: str
    caption: str
    figure: Figure | None
    """Written as PNG, and shown on the page unless it is only the table's picture."""
    table: Table | None = None
    only_table: bool = False
    """The page shows the table as text; its picture is for slides."""
    folded: bool = False
    """A long table that the page shows on request."""


def sections(results: Results) -> list[Section]:
    """Every section there are rows for, in the order of the page."""
    rows, said = results.rows, captions.conditions(results.about)
    made = [*_compared(rows, said), *_pictures(rows, said), *_tables(rows, said)]
    return [section for section in made if section.figure is not None or section.table is not None]


def _compared(rows: Sequence[Row], said: str) -> Iterator[Section]:
    for name, draw in ((commands.MISSES, compared.misses), (commands.GOODPUT, compared.goodput)):
        if drawn := draw(rows):
            title, text = compared.CAPTIONS[name]
            yield Section(name, title, f"{text} {_where(rows, name)}{said}", *drawn)


def _pictures(rows: Sequence[Row], said: str) -> Iterator[Section]:
    for criterion, name in (("overall", "figure4"), ("per_class", "figure4_per_class")):
        text = captions.GOODPUT.format(criterion=captions.CRITERIA[criterion])
        yield Section(
            name,
            "Figure 4: goodput" + (", in every class" if criterion == "per_class" else ""),
            f"{text} {_where(rows, 'figure4')}{captions.INTERVALS} {said}",
            figures.figure4(rows, criterion),
            tables.everyone(rows, criterion),
            folded=True,
        )
    yield Section(
        "figure5",
        "Figure 5: latency and misses under overload",
        f"{captions.OVERLOAD} {_where(rows, 'figure5')}{said}",
        figures.figure5(rows),
    )
    yield Section(
        "figure6",
        "Figure 6: switching load",
        f"{captions.SWITCHING} {_where(rows, 'figure6')}{captions.INTERVALS} {said}",
        figures.figure6(rows),
        tables.figure6(rows),
    )


def _tables(rows: Sequence[Row], said: str) -> Iterator[Section]:
    end = f"{captions.INTERVALS} {said}"
    caption = f"{captions.ABLATION} {_where(rows, 'table4')}{end}"
    yield _only_table("table4", "Table 4: ablation", caption, tables.table4(rows))
    caption = f"{captions.PREDICTOR} {captions.INTERVALS}"
    yield _only_table("table5", "Table 5: the batch latency predictor", caption, tables.table5(rows))
    by_scene = tables.table5(rows, scenes=True)
    yield Section("table5_scenes", "Table 5, by scene", caption, None, by_scene, folded=True)
    table = tables.variants(rows, "slo_base", "Goodput by SLO base")
    caption = f"{captions.SLO_BASE} {_where(rows, 'slo_base')}{end}"
    yield Section(
        "slo_base", "Sensitivity to the SLO base", caption, figures.slo_base(rows), table, folded=True
    )
    for name, (title, text) in captions.VARIANTS.items():
        table = tables.variants(rows, name, title)
        yield _only_table(name, title, f"{text} {_where(rows, name)}{end}", table)
    chosen = tables.settings(rows)
    yield Section("settings", "Settings compared", captions.SETTINGS, None, chosen, folded=True)


def _only_table(name: str, title: str, caption: str, table: Table | None) -> Section:
    figure = render.table_figure(table) if table else None
    return Section(name, title, caption, figure, table, only_table=True)


def _where(rows: Sequence[Row], figure: str) -> str:
    names = sorted({row.hardware for row in rows if row.figure == figure})
    return f"Hardware profile: {', '.join(names)}. " if names else ""
