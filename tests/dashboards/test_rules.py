"""The Prometheus rules: over metrics that exist, explained in the docs, and firing when they should.

Computed by the real promtool on the rules as the chart renders them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from slidingserve.server.metrics import TABLE
from sloserve_operator.telemetry import Telemetry

from dashboards.alerts import ALERTS
from dashboards.rules import WINDOWS, groups
from tests.chart.helm import documents
from tests.dashboards.test_promql import promtool

DOCS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
RULES: list[dict[str, Any]] = [rule for group in groups() for rule in group["rules"]]
NAMES = [rule.get("record") or rule["alert"] for rule in RULES]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}

# Sample name -> labels: of the engine, of the operator, and what the chart's monitors and rules add.
SCRAPED = {"namespace", "pod"}
LABELS: dict[str, set[str]] = {name: {"namespace", "sloserve", "slo_class"} for name in RECORDED}
for metric in TABLE:
    for suffix in ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",):
        LABELS[f"{metric.sample}{suffix}"] = {*metric.labels, *SCRAPED, "sloserve"}
for sample, _, labels, _ in Telemetry().table:
    LABELS[sample] = {*labels, *SCRAPED}
METRIC = re.compile(r"\b(slo:[a-z0-9_:]+|(?:slidingserve|sloserve)_\w+)(?:\{([^}]*)\})?")


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_a_rule_reads_metrics_that_exist_by_labels_that_they_have(rule: dict[str, Any]) -> None:
    expr = rule["expr"]
    used = METRIC.findall(expr)
    assert used
    assert {name for name, _ in used} <= set(LABELS)
    for name, selector in used:
        assert set(re.findall(r"(\w+)=", selector)) <= LABELS[name]
    everything = set().union(*(LABELS[name] for name, _ in used))
    for by in re.findall(r"(?:by|on) \(([^)]*)\)", expr):
        assert set(by.split(", ")) <= everything


@pytest.mark.parametrize("alert", ALERTS, ids=[alert.name for alert in ALERTS])
def test_an_alert_says_what_is_wrong_and_where_to_read_what_to_do(alert: Any) -> None:
    assert alert.summary.endswith(".")
    assert len(alert.description) > 60
    section = re.search(rf"^#+ {alert.name}\n\n(.+)$", DOCS, re.MULTILINE)
    assert section, f"docs/operations.md has no section {alert.name}"
    assert len(section[1]) > 60


def test_every_window_that_an_alert_compares_is_recorded() -> None:
    compared = set(re.findall(r"slo:burn_rate:ratio_rate(\w+)", "".join(a.expr for a in ALERTS)))
    assert compared == set(WINDOWS)


# --- computed -------------------------------------------------------------------------------------------
CLASS = 'namespace="prod", sloserve="chat", slo_class="dialogue"'
ENGINE = 'namespace="prod", sloserve="chat", pod="chat-1"'
OPERATOR = 'namespace="sloserve-system", pod="operator-1"'
OTHER = 'namespace="other", pod="operator-9"'
RESOURCE = 'namespace="prod", name="chat"'
GOOD = f'slidingserve_slo_good_total{{{CLASS}, objective="request", pod="chat-1"}}'
BAD = f'slidingserve_slo_violations_total{{{CLASS}, objective="request", pod="chat-1"}}'
ALL = f'slidingserve_requests_total{{{CLASS}, pod="chat-1"}}'
OBJECTIVE = f'slidingserve_slo_objective_ratio{{{CLASS}, pod="chat-1"}}'
LEADS = {f"sloserve_leader{{{OPERATOR}}}": "1x600"}


class Case(NamedTuple):
    """Series a minute apart, and the alerts that fire at a time."""

    title: str
    at: str
    series: dict[str, str]
    fire: set[str]


def traffic(bad: str, good: str, total: str = "0+60x600") -> dict[str, str]:
    return {GOOD: good, BAD: bad, ALL: total, OBJECTIVE: "0.99x600", **LEADS}


FAST, SLOW = "SlidingServeErrorBudgetBurnsFast", "SlidingServeErrorBudgetBurnsSlowly"
CASES = [
    Case("half a percent missed of one allowed", "2h", traffic("0+1x600", "0+199x600"), set()),
    Case("a fifth missed for seven hours", "7h", traffic("0+12x600", "0+48x600"), {FAST, SLOW}),
    Case("a fifth missed for ten minutes", "10m", traffic("0+12x600", "0+48x600"), {FAST}),
    Case("missed for an hour, kept for ten minutes", "70m", traffic("0+12x60 720x600", "0+48x600"), {SLOW}),
    Case("a tenth missed", "7h", traffic("0+6x600", "0+54x600"), {SLOW}),
    Case("all of three requests missed", "10m", traffic("0 1 2 3x600", "0x600", "0 1 2 3x600"), set()),
    Case("no requests at all", "1h", traffic("0x600", "0x600", "0x600"), set()),
    Case("an engine in fallback", "10m", {f"slidingserve_fallback{{{ENGINE}}}": "1x600", **LEADS},
         {"SlidingServeStockScheduler"}),
    Case("plans that fail", "10m", {f"slidingserve_planner_errors_total{{{ENGINE}}}": "0 0 0 1x600", **LEADS},
         {"SlidingServePlannerErrors"}),
    Case("predictions off by as much as the batch", "40m", {
        f'slidingserve_predictor_abs_error_seconds_sum{{{ENGINE}, scene="decode"}}': "0+1x600",
        f'slidingserve_batch_seconds_sum{{{ENGINE}, scene="decode"}}': "0+1x600", **LEADS},
        {"SlidingServePredictorError"}),
    Case("predictions off by a tenth", "40m", {
        f'slidingserve_predictor_abs_error_seconds_sum{{{ENGINE}, scene="decode"}}': "0+1x600",
        f'slidingserve_batch_seconds_sum{{{ENGINE}, scene="decode"}}': "0+10x600", **LEADS}, set()),
    Case("settings refused", "10m", {
        f'slidingserve_config_reloads_total{{{ENGINE}, role="core", result="rejected"}}': "0 0 1x600",
        **LEADS}, {"SlidingServeConfigRejected"}),
    Case("one pod a generation behind", "20m", {
        f'slidingserve_config_generation{{{ENGINE}, role="core"}}': "4x600",
        f'slidingserve_config_generation{{{ENGINE.replace("chat-1", "chat-2")}, role="core"}}': "5x600",
        **LEADS}, {"SlidingServeConfigNotApplied"}),
    Case("not ready for an hour", "1h", {
        f'sloserve_condition{{{RESOURCE}, type="Ready"}}': "0x600",
        f'sloserve_replicas{{{RESOURCE}, state="desired"}}': "1x600", **LEADS}, {"SLOServeNotReady"}),
    Case("scaled to zero", "1h", {
        f'sloserve_condition{{{RESOURCE}, type="Ready"}}': "0x600",
        f'sloserve_replicas{{{RESOURCE}, state="desired"}}': "0x600", **LEADS}, set()),
    Case("a spec that is refused", "10m",
         {f'sloserve_condition{{{RESOURCE}, type="SpecValid"}}': "0x600", **LEADS}, {"SLOServeSpecInvalid"}),
    Case("no operator is seen", "10m", {f"sloserve_leader{{{OTHER}}}": "1x600"},
         {"SLOServeOperatorNoLeader"}),
    Case("two standbys", "10m", {
        f"sloserve_leader{{{OPERATOR}}}": "0x600",
        f'sloserve_leader{{{OPERATOR.replace("-1", "-2")}}}': "0x600"}, {"SLOServeOperatorNoLeader"}),
    Case("two leaders", "10m", {**LEADS, f'sloserve_leader{{{OPERATOR.replace("-1", "-2")}}}': "1x600"},
         {"SLOServeOperatorSeveralLeaders"}),
    Case("no LIST for minutes", "20m", {**LEADS, f"sloserve_last_list_age_seconds{{{OPERATOR}}}": "0+60x600"},
         {"SLOServeOperatorResyncOld"}),
    Case("a resource waits", "10m", {**LEADS, f"sloserve_queue_oldest_seconds{{{OPERATOR}}}": "0+60x600"},
         {"SLOServeOperatorQueueOld"}),
    Case("a look fails again and again", "20m", {**LEADS, f"sloserve_queue_failing{{{OPERATOR}}}": "1x600"},
         {"SLOServeOperatorFailing"}),
    Case("a child cannot be written", "20m",
         {**LEADS, 'sloserve_children_unwritten{namespace="default", name="chat"}': "1x600"},
         {"SLOServeChildNotWritten"}),
    Case("a child is changed back each time", "5m", {
        f'sloserve_writes_total{{{OPERATOR}, kind="Service", verb="apply", result="contested"}}': "0 1x600",
        **LEADS}, {"SLOServeOperatorContested"}),
    Case("the operator breaks", "5m", {
        **LEADS, f'sloserve_reconcile_total{{{OPERATOR}, result="error"}}': "0 1x600",
        f'sloserve_reconcile_total{{{OPERATOR}, result="ok"}}': "0+9x600"}, {"SLOServeOperatorErrors"}),
    Case("the Lease is hard to get", "10m",
         {**LEADS, f'sloserve_lease_attempts_total{{{OPERATOR}, result="error"}}': "0+1x600"},
         {"SLOServeOperatorLeaseErrors"}),
    Case("an older CRD", "20m", {**LEADS, f"sloserve_schema_skew{{{OPERATOR}}}": "-1x600"},
         {"SLOServeSchemaSkew"}),
    Case("another release's troubles", "20m", {
        **LEADS, f"sloserve_schema_skew{{{OTHER}}}": "-1x600", f"sloserve_queue_failing{{{OTHER}}}": "1x600"},
        set()),
]  # fmt: skip


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as the chart puts them into the cluster."""
    (rule,) = (
        doc
        for doc in documents({"monitoring": {"prometheusRule": {"enabled": True}}})
        if doc["kind"] == "PrometheusRule"
    )
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    return path


@pytest.mark.cluster
def test_prometheus_takes_the_rules_of_the_chart(rendered: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", rendered)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def asked(case: Case, fire: set[str]) -> dict[str, Any]:
    """A promtool test: each alert fires once or not at all."""
    fired = 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0'
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(fire)]
    return {
        "interval": "1m",
        "name": case.title,
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [{"expr": fired, "eval_time": case.at, "exp_samples": expected}],
    }


def outcome(rendered: Path, *tests: dict[str, Any]) -> str:
    file = rendered.parent / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(rendered)], "tests": list(tests)}))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.cluster
def test_each_alert_fires_when_it_should_and_only_then(rendered: Path) -> None:
    assert set().union(*(case.fire for case in CASES)) == {alert.name for alert in ALERTS}
    assert outcome(rendered, *(asked(case, case.fire) for case in CASES)) == ""


@pytest.mark.cluster
def test_a_case_that_expects_another_alert_is_seen_to_fail(rendered: Path) -> None:
    assert f'exp: {{alertname="{SLOW}"}}' in outcome(rendered, asked(CASES[2], {SLOW}))
    assert f'exp: {{alertname="{FAST}"}}' in outcome(rendered, asked(CASES[6], {FAST}))


@pytest.mark.cluster
def test_a_page_reads_well_and_points_at_the_runbook(rendered: Path) -> None:
    case = CASES[2]
    alert = {
        "exp_labels": {
            "severity": "critical",
            "namespace": "prod",
            "sloserve": "chat",
            "slo_class": "dialogue",
        },
        "exp_annotations": {
            "summary": "prod/chat: class dialogue misses its promise too often.",
            "description": "Class dialogue of prod/chat misses its limits 20 times as often as its objective"
            " allows, over 1h and over 5m: at 14.4 a month's error budget is gone in two days.",
            "runbook_url": "docs/operations.md#slidingserveerrorbudgetburnsfast",
        },
    }
    test = asked(case, case.fire)
    del test["promql_expr_test"]
    test["alert_rule_test"] = [{"eval_time": case.at, "alertname": FAST, "exp_alerts": [alert]}]
    test["promql_expr_test"] = [
        {
            "expr": "slo:attainment:ratio_rate5m",
            "eval_time": case.at,
            "exp_samples": [{"labels": f"slo:attainment:ratio_rate5m{{{CLASS}}}", "value": 0.8}],
        }
    ]
    assert outcome(rendered, test) == ""
