"""The queries in the docs are ones that Prometheus takes, over metrics that the engine exports."""

import json
import re
from pathlib import Path

import pytest
import yaml

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


# Series of the only engine, a sample a minute: what each means, and when the query is asked.
GAPS = {
    "Prometheus misses four scrapes": ("40x5 _x4 40x10", ["4m", "8m", "14m"]),
    "the only engine rolls for four minutes": ("40x5 stale _x3 40x10", ["4m", "6m", "8m", "14m"]),
    "the engine's last word is ten minutes old": ("40x5 stale _x20", ["14m"]),
}


@pytest.mark.cluster
@pytest.mark.parametrize(("samples", "times"), GAPS.values(), ids=GAPS)
def test_a_gap_in_the_metrics_reads_to_keda_as_the_last_load_and_never_as_none(
    tmp_path: Path, samples: str, times: list[str]
) -> None:
    documented = re.search(r"```yaml\n# KEDA\n(.*?)```", (PLACE / "autoscaling.md").read_text(), re.DOTALL)
    assert documented
    triggers = yaml.safe_load(documented[1])["spec"]["triggers"]
    assert {trigger["metadata"]["ignoreNullValues"] for trigger in triggers} == {"false"}
    (query,) = (trigger["metadata"]["query"] for trigger in triggers if trigger["name"] == "requests")
    series = 'slidingserve_queue_requests{namespace="team-a", sloserve="chat", pod="p1", phase="decode"}'
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": samples}],
        "promql_expr_test": [
            {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 40}]} for at in times
        ],
    }
    file = tmp_path / "gaps.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
