"""Panels and the dashboard's frame, by grafana-foundation-sdk: the only module that knows Grafana.

`slo.py` describes panels as data; `dashboard` turns them into Grafana's JSON model. Ids are given in order,
so that the same source makes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models import prometheus as prometheus_model

PROMETHEUS = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Query:
    """One expression and its legend ({{label}} placeholders). A dashed query is a target or a prediction."""

    expr: str
    legend: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """What one panel shows. `unit` is Grafana's id (s, percentunit, reqps, short); `width` of 24 columns.

    `steps` are thresholds (colour, lower bound); `top` the axis' maximum; `signed` puts zero in the middle.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Literal["lines", "number", "heat"] = "lines"
    width: int = 8
    steps: tuple[tuple[str, float | None], ...] = ()
    top: float | None = None
    signed: bool = False


@dataclass(frozen=True)
class Row:
    """A titled group of panels, for one audience."""

    title: str
    panels: tuple[Panel, ...]


def _query(panel: Panel, index: int) -> prometheus.Dataquery:
    query = panel.queries[index]
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(LETTERS[index])
    target = target.datasource(PROMETHEUS).editor_mode(prometheus_model.QueryEditorMode.CODE)
    if panel.kind == "number":
        return target.instant()
    if panel.kind == "heat":
        return target.range().format(prometheus_model.PromQueryFormat.HEATMAP)
    return target.range()


def _thresholds(panel: Panel) -> dashboard_builder.ThresholdsConfig:
    steps = [model.Threshold(color=color, value=value) for color, value in panel.steps or (("green", None),)]
    return dashboard_builder.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def _lines(panel: Panel) -> timeseries.Panel:
    legend = common_builder.VizLegendOptions().show_legend(True)
    legend = legend.display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
    tooltip = common_builder.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    built = timeseries.Panel().legend(legend).tooltip(tooltip).line_width(1).fill_opacity(0)
    built = built.show_points(common.VisibilityMode.NEVER)
    dashes = {"dash": [8, 6], "fill": "dash"}
    for letter, query in zip(LETTERS, panel.queries, strict=False):
        if query.dashed:
            built = built.override_by_query(
                letter, [model.DynamicConfigValue(id_val="custom.lineStyle", value=dashes)]
            )
    return built


def _number(panel: Panel) -> stat.Panel:
    last = common_builder.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    built = stat.Panel().reduce_options(last).graph_mode(common.BigValueGraphMode.NONE)
    return built.text_mode(common.BigValueTextMode.VALUE_AND_NAME).color_mode(common.BigValueColorMode.VALUE)


def _heat(panel: Panel) -> heatmap.Panel:
    color = heatmap.HeatmapColorOptions().mode(heatmap_model.HeatmapColorMode.SCHEME)
    color = color.scheme("Blues").steps(64).exponent(0.5)
    built = heatmap.Panel().calculate(False).color(color).cell_gap(1).show_legend().show_tooltip()
    return built.y_axis(heatmap.YAxisConfig().unit(panel.unit).axis_placement(common.AxisPlacement.LEFT))


def _panel(panel: Panel, number: int) -> Any:
    make: dict[str, Any] = {"lines": _lines, "number": _number, "heat": _heat}
    built = make[panel.kind](panel).id(number).title(panel.title).datasource(PROMETHEUS)
    built = built.description(" ".join(panel.description.split())).unit(panel.unit)
    built = built.thresholds(_thresholds(panel)).span(panel.width).height(8)
    if panel.kind == "lines":
        built = built.axis_centered_zero(True) if panel.signed else built.min(0)
    if panel.top is not None:
        built = built.max(panel.top)
    for index in range(len(panel.queries)):
        built = built.with_target(_query(panel, index))
    return built


def _variable(name: str, label: str, query: str) -> dashboard_builder.QueryVariable:
    everything = model.VariableOption(selected=True, text="All", value="$__all")
    variable = dashboard_builder.QueryVariable(name).label(label).query(query).datasource(PROMETHEUS)
    variable = variable.multi(True).include_all(True).all_value(".*").current(everything)
    variable = variable.sort(model.VariableSort.ALPHABETICAL_ASC)
    return variable.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)


def dashboard(
    title: str, uid: str, description: str, variables: dict[str, tuple[str, str]], rows: tuple[Row, ...]
) -> Any:
    """Grafana's model of a dashboard. `variables`: name -> (label, Prometheus query of its values)."""
    board = dashboard_builder.Dashboard(title).uid(uid).description(description)
    board = board.tags(["slidingserve", "llm", "slo"]).editable().tooltip(model.DashboardCursorSync.CROSSHAIR)
    board = board.time("now-1h", "now").refresh("30s").timezone("browser").annotations([])
    source = dashboard_builder.DatasourceVariable("datasource").label("Data source").type("prometheus")
    board = board.with_variable(source)
    for name, (label, query) in variables.items():
        board = board.with_variable(_variable(name, label, query))
    number = 0
    for row in rows:
        number += 1
        board = board.with_row(dashboard_builder.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            board = board.with_panel(_panel(panel, number))
    return board.build()
