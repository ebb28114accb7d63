"""The dashboard's expressions as Prometheus understands them: parsed, and the main ones computed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dashboards import slo
from dashboards.promql import concrete
from tests.cluster import tools
from tests.dashboards.test_dashboard import EXPRESSIONS

pytestmark = pytest.mark.cluster  # for its tool box; no cluster is brought up here

LABELS = 'namespace="prod", sloserve="chat", slo_class="dialogue"'


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.path("promtool"), *arguments], capture_output=True, text=True, check=False)


def rules_file(path: Path, expressions: list[str]) -> Path:
    rules = [{"record": f"panel:query:n{index}", "expr": expr} for index, expr in enumerate(expressions)]
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    return path


def computed(tmp_path: Path, series: dict[str, str], expr: str, expected: list[dict[str, Any]]) -> str:
    """Run `expr` over the series at 10 minutes with promtool; '' if it gives the expected samples."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": concrete(expr), "eval_time": "10m", "exp_samples": expected}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    result = promtool("test", "rules", file)
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_prometheus_parses_every_expression(tmp_path: Path) -> None:
    result = promtool(
        "check", "rules", rules_file(tmp_path / "r.yaml", [concrete(e) for e in EXPRESSIONS.values()])
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(EXPRESSIONS)} rules found" in result.stdout


def test_a_broken_expression_would_be_seen(tmp_path: Path) -> None:
    assert promtool("check", "rules", rules_file(tmp_path / "r.yaml", ["sum by (("])).returncode != 0


def test_attainment_is_the_good_share_of_all_finished_requests_over_pods(tmp_path: Path) -> None:
    good, bad = "slidingserve_slo_good_total", "slidingserve_slo_violations_total"
    series = {
        f'{good}{{{LABELS}, objective="request", pod="a"}}': "0+6x10",
        f'{good}{{{LABELS}, objective="request", pod="b"}}': "0+3x10",
        f'{bad}{{{LABELS}, objective="request", pod="a"}}': "0+1x10",
        f'{bad}{{{LABELS}, objective="ttft", pod="a"}}': "0+1x10",
        f'slidingserve_slo_objective_ratio{{{LABELS}, pod="a"}}': "0.9x10",
    }
    attainment, burn = EXPRESSIONS["Attainment by class A"], EXPRESSIONS["Error budget burn rate A"]
    assert computed(tmp_path, series, attainment, [{"labels": f"{{{LABELS}}}", "value": 0.9}]) == ""
    assert (
        computed(tmp_path, series, f"round({burn}, 0.001)", [{"labels": f"{{{LABELS}}}", "value": 1}]) == ""
    )
    assert computed(tmp_path, series, attainment, [{"labels": f"{{{LABELS}}}", "value": 0.8}]) != ""


def test_classes_of_one_name_in_two_resources_stay_apart(tmp_path: Path) -> None:
    target = "slidingserve_slo_target_seconds"
    other = LABELS.replace("chat", "code")
    series = {
        f'{target}{{{LABELS}, objective="ttft"}}': "0.5x10",
        f'{target}{{{other}, objective="ttft"}}': "2x10",
    }
    expected = [{"labels": f"{{{LABELS}}}", "value": 0.5}, {"labels": f"{{{other}}}", "value": 2}]
    assert computed(tmp_path, series, slo._target("ttft").expr, expected) == ""
