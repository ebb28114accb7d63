"""The dashboard as Grafana gets it: complete, readable, free of what holds in one place only."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dashboards.build import PLACES, generated_files
from dashboards.promql import concrete, expressions

ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads((ROOT / PLACES[0] / "slidingserve-slo.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = dict(expressions(BOARD))


@pytest.mark.parametrize("name", generated_files())
def test_the_file_in_the_repository_is_what_the_source_makes(name: str) -> None:
    assert (ROOT / name).read_text() == generated_files()[name], "run `python -m dashboards.build`"


def test_its_address_and_its_data_source_do_not_depend_on_the_installation() -> None:
    assert BOARD["uid"] == "slidingserve-slo"
    assert "id" not in BOARD
    sources = [panel["datasource"]["uid"] for panel in PANELS]
    sources += [target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]]
    sources += [v["datasource"]["uid"] for v in BOARD["templating"]["list"] if v["type"] == "query"]
    assert set(sources) == {"${datasource}"}


def test_one_can_choose_data_source_namespace_resource_and_class() -> None:
    assert [v["name"] for v in BOARD["templating"]["list"]] == [
        "datasource",
        "namespace",
        "sloserve",
        "slo_class",
    ]


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_every_panel_has_a_unit_and_says_what_it_means(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert len(panel["description"]) > 60
    assert panel["targets"]
    assert all(target["legendFormat"] for target in panel["targets"])


def test_titles_and_ids_are_unique() -> None:
    for key in ("title", "id"):
        values = [panel[key] for panel in BOARD["panels"]]
        assert len(set(values)) == len(values), key


def test_panels_fill_the_width_without_covering_each_other() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        return set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))

    taken = [cell for panel in BOARD["panels"] for cell in cells(panel)]
    assert len(set(taken)) == len(taken)
    assert {x for x, _ in taken} == set(range(24))


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_follows_the_viewers_choice_of_range_and_resource(expr: str) -> None:
    assert set(re.findall(r"\[(.*?)\]", expr)) <= {"$__rate_interval", "$__range"}
    for selector in re.findall(r"\{(.*?)\}", expr):
        assert 'namespace=~"$namespace"' in selector
        assert 'sloserve=~"$sloserve"' in selector


def test_a_variable_that_prometheus_would_not_know_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown Grafana variable"):
        concrete('up{job="$job"}')
