"""Every rule of the CRD: a manifest that it accepts and one that it refuses, on the real API server."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sloserve_operator.api.crd import document
from sloserve_operator.api.rules import VALIDATIONS

from tests.cluster.api import Cluster
from tests.contract.space import manifest

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crd")]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SLO = {"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40}


class Rule(NamedTuple):
    """Where, a value that passes, a value that does not (None: take the field out), what the refusal says."""

    path: str
    good: Any
    bad: Any
    says: str


def slo(**changes: Any) -> list[dict[str, Any]]:
    return [{**SLO, **changes}]


RULES = [
    Rule(
        "metadata.name", "a2345678901234567890123456789012345678901234567890", "9chat", "start with a letter"
    ),
    Rule("metadata.name", "chat", "a" * 51, "at most 50 lower-case letters"),
    Rule("metadata.name", "chat", "chat.v2", "digits and hyphens"),
    Rule("spec.model", {"uri": "hf://org/name"}, None, "spec.model.uri is missing: say which model to serve"),
    Rule("spec.model", {"uri": "hf://org/name"}, {}, "spec.model.uri is missing: say which model to serve"),
    Rule(
        "spec.model.uri",
        "hf://meta-llama/Llama-3.1-8B",
        "s3://bucket/x",
        "model.uri must be hf://organisation/name",
    ),
    Rule("spec.model.uri", "pvc://claim/a/b", "pvc:///x", "pvc://claim/path or file:///absolute/path"),
    Rule("spec.model.uri", "file:///models/demo", "file://models/demo", "file:///absolute/path"),
    Rule("spec.model.uri", "hf://org/name", "hf://org/name; rm -rf", "model.uri must be"),
    Rule("spec.model.name", "demo", "", "at least 1 chars"),
    Rule(
        "spec.model.tokenSecretRef", {"name": "hf"}, {"key": "token"}, "tokenSecretRef.name: Required value"
    ),
    Rule("spec.engine.tensorParallelSize", 1, 0, "engine.tensorParallelSize must be at least 1"),
    Rule("spec.engine.tensorParallelSize", 64, 65, "less than or equal to 64"),
    Rule(
        "spec.engine.accelerator",
        "amd.com/gpu",
        "gpu",
        "must be cpu or a resource name such as nvidia.com/gpu",
    ),
    Rule("spec.engine.maxModelLength", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.extraArgs", ["--max-num-seqs=4"], ["--port=1"], "engine.extraArgs must not set what"),
    Rule("spec.engine.extraArgs", ["--dtype", "float32"], ["--tensor-parallel-size", "2"], "use the fields"),
    Rule("spec.engine.env", [{"name": "A_1", "value": ""}], [{"name": "1A"}], "should match"),
    Rule(
        "spec.engine.env", [{"name": "A"}, {"name": "B"}], [{"name": "A"}, {"name": "A"}], "Duplicate value"
    ),
    Rule(
        "spec.engine.resources", {"limits": {"cpu": 2}}, {"limits": {"cpu": 0.5}}, 'Invalid value: "number"'
    ),
    Rule(
        "spec.engine",
        {"accelerator": "nvidia.com/gpu", "resources": {"limits": {"memory": "1Gi"}}},
        {"accelerator": "nvidia.com/gpu", "resources": {"requests": {"nvidia.com/gpu": 2}}},
        "leave the accelerator out of engine.resources",
    ),
    Rule("spec.engine.tolerations", [{"operator": "Exists"}], [{"operator": "Is"}], "supported values"),
    Rule("spec.engine.startupTimeoutSeconds", 30, 29, "greater than or equal to 30"),
    Rule("spec.engine.drainTimeoutSeconds", 0, -1, "greater than or equal to 0"),
    Rule("spec.replicas", 0, -1, "greater than or equal to 0"),
    Rule("spec.sloClasses", slo(), [], "at least 1 items"),
    Rule("spec.sloClasses", slo(), None, "spec.sloClasses: Required value"),
    Rule("spec.sloClasses", [SLO, {**SLO, "name": "other"}], [SLO, SLO], "Duplicate value"),
    Rule("spec.sloClasses", slo(name="a-1"), slo(name="Dialogue"), "should match"),
    Rule(
        "spec.sloClasses",
        slo(ttft={"milliseconds": 0.5}),
        slo(ttft={}),
        "ttft needs exactly one of milliseconds",
    ),
    Rule("spec.sloClasses", slo(), slo(ttft={"milliseconds": 1, "slowdown": 2}), "ttft needs exactly one of"),
    Rule("spec.sloClasses", slo(), slo(ttft={"slowdown": 0}), "greater than 0"),
    Rule("spec.sloClasses", slo(tbtMilliseconds=0.1), slo(tbtMilliseconds=0), "greater than 0"),
    Rule(
        "spec.sloClasses", slo(), [{"name": "a", "ttft": {"slowdown": 5}}], "tbtMilliseconds: Required value"
    ),
    Rule("spec.sloClasses", slo(objectivePercent=99.9), slo(objectivePercent=100), "less than 100"),
    Rule("spec.defaultClass", "dialogue", "absent", "defaultClass must be the name of one of sloClasses"),
    Rule("spec.scheduler.policy", "qoserve", "edf", 'supported values: "slidingserve_paper", "sarathi_edf"'),
    Rule("spec.scheduler.alpha", 0.7, "abc", "must be of type number"),
    Rule("spec.scheduler.alpha", 10, 0, "greater than 0"),
    Rule("spec.scheduler.alpha", 0.01, 10.5, "less than or equal to 10"),
    Rule("spec.scheduler.predictor.refreshSeconds", 1.5, 0.5, "greater than or equal to 1"),
    Rule("spec.scheduler.chunk.minTokens", 1, 0, "greater than or equal to 1"),
    Rule(
        "spec.scheduler.chunk",
        {"minTokens": 64, "maxTokens": 64},
        {"minTokens": 65, "maxTokens": 64},
        "scheduler.chunk.minTokens must not be above scheduler.chunk.maxTokens",
    ),
]


def changed(path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(manifest())
    *parents, last = path.split(".")
    place = obj
    for part in parents:
        place = place.setdefault(part, {})
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return obj


def offer(cluster: Cluster, obj: dict[str, Any]) -> str:
    """What the API server says against an object; empty if it takes it."""
    done = cluster.kubectl_result("create", "--dry-run=server", "-f", "-", stdin=json.dumps(obj))
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.path}={rule.bad}"[:60])
def test_the_api_server_takes_the_good_and_refuses_the_bad_with_a_sentence(
    cluster: Cluster, rule: Rule
) -> None:
    assert offer(cluster, changed(rule.path, rule.good)) == ""
    assert rule.says in offer(cluster, changed(rule.path, rule.bad))


def messages(node: dict[str, Any]) -> set[str]:
    found = {rule["message"] for rule in node.get(VALIDATIONS, [])}
    inner = [*node.get("properties", {}).values(), node.get("items", {})]
    return found.union(*(messages(child) for child in inner if child))


def test_no_cel_rule_is_without_a_refused_manifest() -> None:
    schema = document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    untried = {m for m in messages(schema) if not any(rule.says in m for rule in RULES)}
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
    assert spec["sloClasses"][0]["objectivePercent"] == 99
