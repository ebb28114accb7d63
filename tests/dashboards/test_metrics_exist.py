"""Dashboard and engine name the same metrics: an empty panel is what users complain of first."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from slidingserve.server.metrics import TABLE

from dashboards.promql import metric_names
from tests.dashboards.test_dashboard import BOARD, EXPRESSIONS

METRICS = {metric.sample: metric for metric in TABLE}
FROM_THE_SCRAPE = {"namespace", "sloserve", "pod"}  # set by the chart's PodMonitor, not by the engine
NOT_DRAWN = {"slidingserve_predictor_refreshes_total"}  # the age of the fit shows the same
USE = re.compile(r"by \((?P<by>[^)]*)\) \((?:\w+\()?(?P<name>\w+)\{(?P<selector>[^}]*)\}")


# Every metric once, as one of an engine's processes counts it, then the sum over processes of /metrics.
EXPOSE = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from slidingserve.server.metrics import TABLE, series
for metric in TABLE:
    use = {"counter": "inc", "gauge": "set", "histogram": "observe"}[metric.kind]
    getattr(series(metric.name, *(["x"] * len(metric.labels))), use)(1)
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def table_name(sample: str) -> str:
    """The table's name of a sample: a histogram's samples carry a suffix."""
    base = re.sub(r"_(bucket|sum|count)$", "", sample)
    return base if base in METRICS and METRICS[base].kind == "histogram" else sample


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_metric_is_one_that_the_engine_exports(expr: str) -> None:
    assert {table_name(name) for name in metric_names(expr)} <= set(METRICS)


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_label_is_one_that_the_metric_carries(expr: str) -> None:
    uses = list(USE.finditer(expr))
    assert len(uses) == len(re.findall(r"\w+\{", expr)), "an aggregation that this test cannot read"
    for use in uses:
        known = FROM_THE_SCRAPE | set(METRICS[table_name(use["name"])].labels)
        known |= {"le"} if use["name"].endswith("_bucket") else set()
        assert set(use["by"].split(", ")) <= known
        assert set(re.findall(r"(\w+)=", use["selector"])) <= known


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_counters_are_read_as_rates_and_gauges_as_they_are(expr: str) -> None:
    for name in metric_names(expr):
        kind = METRICS[table_name(name)].kind
        in_range = re.search(rf"(rate|increase)\({name}\{{", expr) is not None
        assert in_range == (kind != "gauge"), name


def test_a_sum_is_never_taken_of_a_histogram_that_has_none() -> None:
    for expr in EXPRESSIONS.values():
        for name in metric_names(expr):
            if name.endswith("_sum"):
                assert min(METRICS[table_name(name)].buckets) >= 0, (
                    f"{name}: not exported with negative buckets"
                )


def test_every_metric_of_the_engine_is_on_the_dashboard() -> None:
    drawn = {table_name(name) for expr in EXPRESSIONS.values() for name in metric_names(expr)}
    assert set(METRICS) - drawn == NOT_DRAWN


def test_the_variables_ask_for_metrics_that_exist() -> None:
    queries = [v["query"] for v in BOARD["templating"]["list"] if v["type"] == "query"]
    names = [re.match(r"label_values\((\w+)", query) for query in queries]
    assert {name[1] for name in names if name} <= set(METRICS)
    assert len(names) == 3


def test_every_series_is_in_what_the_processes_of_an_engine_expose(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EXPOSE], env=environment, capture_output=True, text=True, check=True
    )
    exposed = set(re.findall(r"^(\w+)\{", done.stdout, re.MULTILINE))
    drawn = {name for expr in EXPRESSIONS.values() for name in metric_names(expr)}
    assert drawn - exposed == set()
