"""The chart as text: linted, unit-tested, refusing typos, with names and values that Kubernetes takes."""

import json
import re
import subprocess
from typing import Any

import pytest
import yaml
from sloserve_operator.kinds import KINDS, WATCHED

from tests.chart.helm import CASES, CHART, LONG, ROOT, documents, helm, leaves, template
from tests.cluster import tools

pytestmark = pytest.mark.cluster  # for its tool box; no cluster is brought up here

CRD_NAME = "sloserves.sloserve.dev"
CRD = (ROOT / "crds" / f"{CRD_NAME}.yaml").read_text()


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
        limit = 253 if "Role" in doc["kind"] or doc["kind"] == "CustomResourceDefinition" else 63
        assert len(doc["metadata"]["name"]) <= limit
        assert re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", doc["metadata"]["name"])
        for label in doc["metadata"].get("labels", {}).values():
            assert re.fullmatch(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?", label)


def test_two_releases_of_one_name_share_no_cluster_wide_object_but_the_crd() -> None:
    def cluster_wide(namespace: str) -> set[tuple[str, str]]:
        found = documents(CASES["everything on"], namespace=namespace)
        return {(d["kind"], d["metadata"]["name"]) for d in found if "namespace" not in d["metadata"]}

    assert cluster_wide("a") & cluster_wide("b") == {("CustomResourceDefinition", CRD_NAME)}


def test_the_chart_carries_the_generated_crd_byte_for_byte() -> None:
    assert (CHART / "files" / "crds" / f"{CRD_NAME}.yaml").read_text() == CRD
    assert CRD in template({"crds": {"keep": False}})


def test_a_kept_crd_is_the_same_document_with_helms_keep_policy() -> None:
    (crd,) = (doc for doc in documents({}) if doc["kind"] == "CustomResourceDefinition")
    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load(CRD)


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
        assert given[group, plural] >= {"get", "list", "watch"}
        assert (given[group, plural] >= {"create", "patch", "delete"}) == (kind not in ("SLOServe", "Pod"))
    assert {plural for (_, plural), verbs in given.items() if "watch" in verbs} == {row[2] for row in WATCHED}
    assert {kind for _, _, _, kind in WATCHED} | {"Event", "Lease"} == set(KINDS)
    assert "*" not in {word for (group, plural), verbs in given.items() for word in (group, plural, *verbs)}


def test_the_lease_is_in_the_rights_only_with_leader_election() -> None:
    def with_leases(values: dict[str, Any]) -> list[str]:
        roles = [doc for doc in documents(values) if "leases" in str(doc.get("rules"))]
        return [f"{doc['kind']} {doc['metadata']['namespace']}" for doc in roles]

    assert with_leases({}) == []
    assert with_leases({"leaderElection": {"enabled": True}}) == ["Role sloserve-system"]


def test_a_role_in_a_namespace_gives_the_same_rights() -> None:
    assert rules({"watchNamespaces": ["team-a"]}) == rules({})


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


def test_every_default_is_described_by_the_schema_and_nothing_else_is() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def described(node: dict[str, Any], values: Any, path: str) -> list[str]:
        if "$ref" in node:
            node = schema["definitions"][node["$ref"].rsplit("/", 1)[1]]
        if not isinstance(values, dict) or "properties" not in node:
            return []
        names = set(node["properties"]) - {"global", "claims"}
        odd = [f"{path}.{name}" for name in names ^ set(values)]
        return odd + [
            p
            for name in names & set(values)
            for p in described(node["properties"][name], values[name], f"{path}.{name}")
        ]

    assert described(schema, yaml.safe_load((CHART / "values.yaml").read_text()), "") == []
