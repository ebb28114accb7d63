"""The queries in the docs are ones that Prometheus takes, over metrics that the engine exports."""

import re
from pathlib import Path

import pytest

from tests.dashboards.test_metrics_exist import METRICS, table_name
from tests.dashboards.test_promql import promtool, rules_file

PLACE = Path(__file__).parents[2] / "docs"
DOCS = "".join((PLACE / name).read_text() for name in ("operations.md", "autoscaling.md"))
QUERIES = re.findall(r"```promql\n# ([^\n]*)\n(.*?)```", DOCS, re.DOTALL)


def test_queries_are_found() -> None:
    assert len(QUERIES) == DOCS.count("```promql")
    assert len(QUERIES) >= 5


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[title for title, _ in QUERIES])
def test_a_query_names_metrics_of_the_engine(query: str) -> None:
    names = set(re.findall(r"slidingserve_\w+", query))
    assert names
    assert {table_name(name) for name in names} <= set(METRICS)


@pytest.mark.cluster
def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    done = promtool("check", "rules", rules_file(tmp_path / "rules.yaml", [query for _, query in QUERIES]))
    assert done.returncode == 0, done.stdout + done.stderr
