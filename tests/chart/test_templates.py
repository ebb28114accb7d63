"""The chart as text: linted, unit-tested, refusing typos, with names and values that Kubernetes takes."""

import functools
import json
import re
import subprocess
from typing import Any

import pytest
import yaml
from sloserve_operator.api import CRD, SCHEMA_ANNOTATION, SCHEMA_VERSION
from sloserve_operator.apply import PRUNED
from sloserve_operator.desired.policies import operator_peer
from sloserve_operator.kinds import KINDS, WATCHED

from dashboards.alerts import ALERTS
from dashboards.rules import THRESHOLDS
from tests.chart.helm import CASES, CHART, LONG, ROOT, documents, helm, leaves, template
from tests.chart.values import leaves as leaves_of
from tests.chart.values import load
from tests.cluster import tools

pytestmark = pytest.mark.cluster  # for its tool box; no cluster is brought up here

CRD_TEXT = (ROOT / "crds" / f"{CRD}.yaml").read_text()


def test_helm_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_own_unit_tests_pass() -> None:
    done = subprocess.run([tools.path("helm-unittest"), CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_nothing_is_null_and_no_number_is_written_as_a_power_of_ten(values: dict[str, Any]) -> None:
    rendered = documents(values)
    assert rendered
    assert [path for doc in rendered for path, leaf in leaves(doc) if leaf is None] == []
    objects = [yaml.safe_dump(doc) for doc in rendered if doc["kind"] != "ConfigMap"]
    assert re.findall(r"\d(?:\.\d+)?e\+\d+", "".join(objects)) == []


@pytest.mark.parametrize("release", ["s", "sloserve", LONG])
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_names_and_labels_are_within_limits_for_any_release_name(
    values: dict[str, Any], release: str
) -> None:
    for doc in documents(values, release, namespace="n" * 63):
        long = ("Role", "CustomResourceDefinition", "ValidatingAdmission")
        limit = 253 if any(word in doc["kind"] for word in long) else 63
        assert len(doc["metadata"]["name"]) <= limit
        assert re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", doc["metadata"]["name"])
        for label in doc["metadata"].get("labels", {}).values():
            assert re.fullmatch(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?", label)


def test_two_releases_of_one_name_share_no_cluster_wide_object_but_the_crd() -> None:
    def cluster_wide(namespace: str) -> set[tuple[str, str]]:
        found = documents(CASES["everything on"], namespace=namespace)
        return {(d["kind"], d["metadata"]["name"]) for d in found if "namespace" not in d["metadata"]}

    assert cluster_wide("a") & cluster_wide("b") == {("CustomResourceDefinition", CRD)}


def test_the_chart_carries_the_generated_crd_byte_for_byte() -> None:
    assert (CHART / "files" / "crds" / f"{CRD}.yaml").read_text() == CRD_TEXT
    assert CRD_TEXT in template({"crds": {"keep": False}})


def test_a_kept_crd_is_the_same_document_with_helms_keep_policy() -> None:
    (crd,) = (doc for doc in documents({}) if doc["kind"] == "CustomResourceDefinition")
    assert crd["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    assert crd["metadata"]["annotations"] == {SCHEMA_ANNOTATION: str(SCHEMA_VERSION)}
    assert crd == yaml.safe_load(CRD_TEXT)


def rules(values: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """(API group, resource) -> verbs of the operator's first role."""
    role = next(
        doc for doc in documents(values) if doc["metadata"]["name"].endswith("-operator") and "rules" in doc
    )
    return {
        (g, r): set(rule["verbs"])
        for rule in role["rules"]
        for g in rule["apiGroups"]
        for r in rule["resources"]
    }


def test_the_operator_may_watch_what_its_informer_watches_and_write_what_it_makes() -> None:
    given = rules({})
    for group, _, plural, kind in WATCHED:
        assert given[group, plural] >= {"list", "watch"}
        assert (given[group, plural] >= {"create", "patch"}) == (kind not in ("SLOServe", "Pod"))
        assert ("delete" in given[group, plural]) == (kind in PRUNED)
    assert {plural for (_, plural), verbs in given.items() if "watch" in verbs} == {row[2] for row in WATCHED}
    read = {"Event", "Lease", "CustomResourceDefinition"}
    assert {kind for _, _, _, kind in WATCHED} | read == set(KINDS)
    assert "*" not in {word for (group, plural), verbs in given.items() for word in (group, plural, *verbs)}


def test_the_lease_is_in_the_rights_only_with_leader_election() -> None:
    def with_leases(values: dict[str, Any]) -> list[str]:
        roles = [doc for doc in documents(values) if "leases" in str(doc.get("rules"))]
        return [f"{doc['kind']} {doc['metadata']['namespace']}" for doc in roles]

    assert with_leases({}) == []
    assert with_leases({"leaderElection": {"enabled": True}}) == ["Role sloserve-system"]


def test_a_role_in_a_namespace_gives_the_same_rights_but_for_the_crd() -> None:
    crd = ("apiextensions.k8s.io", "customresourcedefinitions")
    everywhere = rules({})
    assert everywhere.pop(crd) == {"get"}
    assert rules({"watchNamespaces": ["team-a"]}) == everywhere


@pytest.mark.parametrize(
    ("values", "path", "word"),
    [
        ({"watchNamespace": ["a"]}, "''", "watchNamespace"),
        ({"crds": {"enable": False}}, "/crds", "enable"),
        ({"images": {"engine": {"tags": "1"}}}, "/images/engine", "tags"),
        ({"images": {"operator": {"tag": 1.1}}}, "/images/operator/tag", "want string"),
        ({"images": {"registry": "https://registry.example.com"}}, "/images/registry", "not"),
        (
            {"monitoring": {"podMonitor": {"enabled": "yes"}}},
            "/monitoring/podMonitor/enabled",
            "want boolean",
        ),
        ({"monitoring": {"podMonitor": {"interval": "15"}}}, "/monitoring/podMonitor/interval", "pattern"),
        ({"grafana": {"dashboard": {"enabled": True}}}, "/grafana", "dashboard"),
        (
            {"grafana": {"dashboards": {"labels": {"grafana_dashboard": 1}}}},
            "/grafana/dashboards/labels",
            "want string",
        ),
        ({"operator": {"logFormat": "jsn"}}, "/operator/logFormat", "one of"),
        ({"operator": {"replica": 2}}, "/operator", "replica"),
        ({"operator": {"replicas": 0}}, "/operator/replicas", "minimum"),
        ({"leaderElection": {"leaseSeconds": 2}}, "/leaderElection/leaseSeconds", "minimum"),
        ({"operator": {"ports": {"health": 80}}}, "/operator/ports/health", "minimum"),
        ({"watchNamespaces": ["Team A"]}, "/watchNamespaces/0", "pattern"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_value_is_refused_with_its_path(values: dict[str, Any], path: str, word: str) -> None:
    done = helm("template", "sloserve", str(CHART), "--kube-version", "1.34", values=values)
    assert done.returncode != 0
    assert path in done.stderr
    assert word in done.stderr


def nested(path: str, value: Any) -> dict[str, Any]:
    """A values file with one value at a dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


GROUPS = ["", *(path for path, node in leaves_of(load()) if "properties" in node)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_misspelt_name_is_refused_in_every_group_with_its_path(group: str) -> None:
    values = nested(f"{group}.enalbed".lstrip("."), True)
    done = helm("template", "sloserve", str(CHART), "--kube-version", "1.34", values=values)
    assert done.returncode != 0
    assert f"at '{'/' if group else ''}{group.replace('.', '/')}'" in done.stderr
    assert "additional properties 'enalbed' not allowed" in done.stderr


@pytest.mark.parametrize("group", [group for group in GROUPS if group])
def test_an_empty_block_is_refused_in_every_group_with_its_path(group: str) -> None:
    """`operator:` with nothing below it takes the defaults away."""
    done = helm("template", "sloserve", str(CHART), "--kube-version", "1.34", values=nested(group, None))
    assert done.returncode != 0
    *parents, name = group.split(".")
    assert f"at '{'/' if parents else ''}{'/'.join(parents)}': missing property '{name}'" in done.stderr


def test_an_empty_value_is_refused_with_its_path_or_changes_nothing() -> None:
    for path, node in leaves_of(load()):
        if "default" not in node:
            continue
        values = nested(path, None)
        done = helm("template", "sloserve", str(CHART), "--kube-version", "1.34", values=values)
        assert "nil pointer" not in done.stderr, path
        assert done.returncode == 0 or path.rpartition(".")[2] in done.stderr, path


def test_whole_numbers_of_a_values_file_stay_whole() -> None:
    million = 1_000_000
    values = {
        "operator": {
            "terminationGracePeriodSeconds": million,
            "extraEnv": [
                {"name": "BIG", "value": million},
                {"name": "RATIO", "value": 0.25},
                {"name": "ON", "value": True},
                {"name": "TEXT", "value": "1e6"},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        },
        "monitoring": {"prometheusRule": {"enabled": True, "thresholds": {"resyncAgeSeconds": 100_000}}},
    }
    rendered = documents(values)
    (deployment,) = (doc for doc in rendered if doc["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == million
    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    wanted = {"BIG": "1000000", "RATIO": "0.25", "ON": "true", "TEXT": "1e6", "POD": None}
    assert {name: env[name] for name in wanted} == wanted
    assert "1e+" not in json.dumps([doc for doc in rendered if doc["kind"] == "PrometheusRule"])


def test_a_value_of_another_type_is_refused_at_every_path() -> None:
    wrong: dict[str, Any] = {}
    paths = []
    for path, node in leaves_of(load()):
        if "default" not in node:
            continue
        paths.append("/" + path.replace(".", "/"))
        *parents, name = path.split(".")
        where = wrong
        for parent in parents:
            where = where.setdefault(parent, {})
        where[name] = 7 if isinstance(node["default"], str | bool | list | dict) else "seven"
    done = helm("template", "sloserve", str(CHART), "--kube-version", "1.34", values=wrong)
    assert [path for path in paths if f"at '{path}'" not in done.stderr] == []


def test_every_value_is_described_and_nothing_else_is_in_the_values_file() -> None:
    described = {path: node for path, node in leaves_of(load()) if "default" in node}
    assert [path for path, node in described.items() if len(node.get("description", "")) < 8] == []
    written = yaml.safe_load((CHART / "values.yaml").read_text())
    assert written == functools.reduce(
        merged, (nested(path, node["default"]) for path, node in described.items())
    )


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two nested mappings in one."""
    both = {key: merged(one[key], other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}


def test_alerts_that_can_be_left_out_are_those_that_there_are() -> None:
    (disabled,) = (n for path, n in leaves_of(load()) if path == "monitoring.prometheusRule.disabled")
    assert disabled["items"]["enum"] == [alert.name for alert in ALERTS]
    (group,) = (n for path, n in leaves_of(load()) if path == "monitoring.prometheusRule.thresholds")
    assert tuple(group["properties"]) == THRESHOLDS


def test_a_release_may_be_called_like_a_number() -> None:
    (deployment,) = (doc for doc in documents({}, release="123") if doc["kind"] == "Deployment")
    assert deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "123"


@pytest.mark.parametrize("release", ["sloserve", "other", LONG])
def test_the_operator_is_told_who_it_is_for_the_engines_network_policies(release: str) -> None:
    (deployment,) = (doc for doc in documents({}, release=release) if doc["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    env = {row["name"]: row.get("value") for row in template["spec"]["containers"][0]["env"]}
    peer = operator_peer(env["SLOSERVE_OPERATOR_NAMESPACE"], env["SLOSERVE_OPERATOR_LABELS"])
    wanted = peer["podSelector"]["matchLabels"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "sloserve-system"}}
    assert wanted == deployment["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()
