"""Every rule of the CRD: a manifest that it accepts and one that it refuses, on the real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sloserve_operator.api.crd import document
from sloserve_operator.api.rules import VALIDATIONS

from tests.cluster.api import Cluster
from tests.contract import rules_arguments, rules_devices, rules_engine, rules_pods
from tests.contract.rules import EXAMPLES, Rule, changed, offer
from tests.contract.rules_pods import TRANSITIONS
from tests.contract.space import Space, manifest

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crd")]

RULES = [*rules_engine.RULES, *rules_arguments.RULES, *rules_devices.RULES, *rules_pods.RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.path}={rule.bad}"[:60])
def test_the_api_server_takes_the_good_and_refuses_the_bad_with_a_sentence(
    cluster: Cluster, rule: Rule
) -> None:
    assert offer(cluster, changed(rule.path, rule.good)) == ""
    assert rule.says in offer(cluster, changed(rule.path, rule.bad))


@pytest.mark.parametrize(("before", "good", "bad", "says"), TRANSITIONS)
def test_what_a_made_claim_cannot_change_is_refused(
    space: Space, before: Any, good: Any, bad: Any, says: str
) -> None:
    space.apply(manifest(storage={"modelCache": before}))
    apply = ("-n", space.name, "apply", "--dry-run=server", "-f", "-")
    taken, refused = (
        space.cluster.kubectl_result(*apply, stdin=json.dumps(manifest(storage={"modelCache": cache})))
        for cache in (good, bad)
    )
    assert taken.returncode == 0, taken.stderr
    assert says in refused.stderr


def messages(node: dict[str, Any]) -> set[str]:
    found = {rule["message"] for rule in node.get(VALIDATIONS, [])}
    inner = [
        *node.get("properties", {}).values(),
        node.get("items", {}),
        node.get("additionalProperties", {}),
    ]
    return found.union(*(messages(child) for child in inner if child))


def test_no_cel_rule_is_without_a_refused_manifest() -> None:
    schema = document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    said = {rule.says for rule in RULES} | {says for *_, says in TRANSITIONS}
    untried = {message for message in messages(schema) if not any(says in message for says in said)}
    assert untried == set()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_accepted(cluster: Cluster, path: Path) -> None:
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(path))


def test_a_misspelt_field_is_refused_by_kubectl(cluster: Cluster) -> None:
    assert 'unknown field "spec.replica"' in offer(cluster, changed("spec.replica", 1))


def test_defaults_are_filled_in_where_the_user_says_nothing(cluster: Cluster) -> None:
    text = cluster.kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(manifest())
    )
    spec = json.loads(text)["spec"]
    assert spec["scheduler"] == {
        "policy": "slidingserve_paper",
        "predictor": {"refreshSeconds": 30},
        "chunk": {"minTokens": 16},
    }
    assert spec["engine"]["tensorParallelSize"] == 1
    assert spec["sloClasses"] == manifest()["spec"]["sloClasses"], "a list is one value to those who compare"
