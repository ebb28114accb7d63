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
from tests.contract.space import Space, manifest, spec

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
        "must be cpu, claims or a resource name such as nvidia.com/gpu",
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
    Rule("spec.sloClasses", slo(), slo(ttft={"slowdown": 0.5}), "greater than or equal to 1"),
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

MAIN = {"name": "main"}
LORA = {"name": "sql", "uri": "hf://org/adapter"}
ENV_KEY = {"secretKeyRef": {"name": "s", "key": "k"}}
BOTH = {**ENV_KEY, "fieldRef": {"fieldPath": "status.podIP"}}
GPUS = {"name": "gpus", "resourceClaimTemplateName": "two-gpus"}
RWX = {"size": "1Gi", "accessModes": ["ReadWriteMany"]}


def pod(**changes: Any) -> dict[str, Any]:
    return {"spec": changes}


RULES += [
    Rule("spec.model.dtype", "bfloat16", "int8", "supported values"),
    Rule("spec.model.quantization", "fp8", "FP8!", "should match"),
    Rule(
        "spec",
        {
            **spec(),
            "model": {"uri": "hf://a/b", "dtype": "auto"},
            "engine": {"extraArgs": ["--quantization=fp8"]},
        },
        {
            **spec(),
            "model": {"uri": "hf://a/b", "dtype": "auto"},
            "engine": {"extraArgs": ["--dtype", "half"]},
        },
        "model.dtype and --dtype in engine.extraArgs say the same: leave one out",
    ),
    Rule(
        "spec",
        {**spec(), "model": {"uri": "hf://a/b", "quantization": "fp8"}},
        {
            **spec(),
            "model": {"uri": "hf://a/b", "quantization": "fp8"},
            "engine": {"extraArgs": ["--quantization=awq"]},
        },
        "model.quantization and --quantization in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine.accelerator",
        "nvidia.com/mig-3g.40gb",
        "nvidia.com/",
        "must be cpu, claims or a resource name",
    ),
    Rule("spec.engine.pipelineParallelSize", 2, 0, "greater than or equal to 1"),
    Rule(
        "spec.engine.extraArgs",
        ["--max_num_seqs=4"],
        ["--served_model_name=x"],
        "use the fields of the resource",
    ),
    Rule("spec.engine.extraArgs", [], ["-pp=2"], "pipeline-parallel-size"),
    Rule("spec.engine.maxNumSeqs", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.maxNumBatchedTokens", 1, 0, "greater than or equal to 1"),
    Rule("spec.engine.gpuMemoryUtilization", 1, 1.01, "less than or equal to 1"),
    Rule("spec.engine.gpuMemoryUtilization", 0.5, 0, "greater than 0"),
    Rule(
        "spec.engine",
        {"maxNumSeqs": 4, "extraArgs": ["--max-num-seqs-x"]},
        {"maxNumSeqs": 4, "extraArgs": ["--max_num_seqs=8"]},
        "engine.maxNumSeqs and --max-num-seqs in engine.extraArgs say the same: leave one out",
    ),
    Rule(
        "spec.engine",
        {"maxNumBatchedTokens": 4},
        {"maxNumBatchedTokens": 4, "extraArgs": ["--max-num-batched-tokens", "8"]},
        "engine.maxNumBatchedTokens and --max-num-batched-tokens in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"extraArgs": ["--gpu-memory-utilization=0.5"]},
        {"gpuMemoryUtilization": 0.5, "extraArgs": ["--gpu-memory-utilization=0.5"]},
        "engine.gpuMemoryUtilization and --gpu-memory-utilization in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"extraArgs": ["--lora-modules", "a=b"]},
        {"loraAdapters": [LORA], "extraArgs": ["--lora-modules", "a=b"]},
        "engine.loraAdapters and --lora-modules in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine",
        {"apiKeySecretRef": {"name": "keys"}},
        {"apiKeySecretRef": {"name": "keys"}, "extraArgs": ["--api-key=secret"]},
        "engine.apiKeySecretRef and --api-key in engine.extraArgs say the same",
    ),
    Rule(
        "spec.engine.loraAdapters", [LORA], [{**LORA, "uri": "s3://x"}], "engine.loraAdapters[].uri must be"
    ),
    Rule("spec.engine.loraAdapters", [LORA, {**LORA, "name": "b"}], [LORA, LORA], "Duplicate value"),
    Rule("spec.engine.loraAdapters", [LORA], [{**LORA, "name": "a=b"}], "should match"),
    Rule("spec.engine.imagePullPolicy", "Never", "Sometimes", "supported values"),
    Rule("spec.engine.imagePullSecrets", [{"name": "r"}], [{"name": ""}], "at least 1 chars"),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": ENV_KEY}],
        [{"name": "A", "value": "x", "valueFrom": ENV_KEY}],
        "engine.env needs either value or valueFrom for a variable, not both",
    ),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}],
        [{"name": "A", "valueFrom": BOTH}],
        "valueFrom needs exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef",
    ),
    Rule(
        "spec.engine.env",
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}],
        [{"name": "A", "valueFrom": {}}],
        "valueFrom needs exactly one of",
    ),
    Rule(
        "spec.engine.envFrom",
        [{"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}],
        [{"prefix": "P_"}],
        "engine.envFrom needs exactly one of secretRef and configMapRef in each entry",
    ),
    Rule(
        "spec.engine.resources",
        {"limits": {"cpu": "1500m", "memory": "1.5Gi"}},
        {"limits": {"memory": "16 GB"}},
        "engine.resources.limits must hold quantities such as 500m, 2 or 16Gi",
    ),
    Rule(
        "spec.engine.resources",
        {"requests": {"cpu": 2, "memory": "1e9"}},
        {"requests": {"memory": "much"}},
        "engine.resources.requests must hold quantities",
    ),
    Rule(
        "spec.engine.sharedMemorySize",
        1073741824,
        "2GB",
        "engine.sharedMemorySize must be a quantity above 0",
    ),
    Rule("spec.engine.sharedMemorySize", "2Gi", 0, "engine.sharedMemorySize must be a quantity above 0"),
    Rule("spec.sloClasses", slo(weight=0.5), slo(weight=0), "greater than 0"),
    Rule("spec.scheduler.predictor.method", "ols", "magic", "supported values"),
    Rule("spec.scheduler.predictor.expertSamples", 8, 7, "greater than or equal to 8"),
    Rule(
        "spec.scheduler.options",
        {"sorter": "edf", "margin": 1, "relegation": False},
        {"sorter": "x"},
        "supported",
    ),
    Rule("spec.scheduler.options.margin", 1.5, 0.5, "greater than or equal to 1"),
    Rule("spec.scheduler.overload", {"mode": "relegate"}, {"mode": "reject"}, "supported values"),
    Rule("spec.scheduler.options.budget", 256, 0.5, "must be of type integer"),
    Rule(
        "spec.storage.modelCache",
        {"existingClaim": "weights"},
        {"existingClaim": "weights", "size": "1Gi"},
        "storage.modelCache needs exactly one of existingClaim (a claim of yours) and size",
    ),
    Rule("spec.storage.modelCache", {"size": 1}, {}, "storage.modelCache needs exactly one of"),
    Rule(
        "spec.storage.modelCache",
        {"size": "1Gi", "storageClassName": "fast"},
        {"existingClaim": "weights", "storageClassName": "fast"},
        "storage.modelCache.storageClassName is for a claim to be made",
    ),
    Rule(
        "spec.storage.modelCache.size", "1.5Ti", "100GB", "storage.modelCache.size must be a quantity above 0"
    ),
    Rule("spec.storage.modelCache.size", 5, 0, "storage.modelCache.size must be a quantity above 0"),
    Rule("spec.storage.modelCache", RWX, {**RWX, "accessModes": ["ReadOnlyMany"]}, "supported values"),
    Rule("spec.storage.modelCache", RWX, {**RWX, "accessModes": []}, "at least 1 items"),
    Rule(
        "spec",
        spec(replicas=2, storage={"modelCache": RWX}),
        spec(replicas=2, storage={"modelCache": {"size": "1Gi"}}),
        "storage.modelCache.accessModes must hold ReadWriteMany with more than 1 replica",
    ),
    Rule(
        "spec",
        spec(rollout={"maxSurge": 1}, storage={"modelCache": RWX}),
        spec(rollout={"maxSurge": 1}, storage={"modelCache": {"size": "1Gi"}}),
        "storage.modelCache.accessModes must hold ReadWriteMany with rollout.maxSurge above 0",
    ),
    Rule(
        "spec.rollout",
        {"maxSurge": 1, "maxUnavailable": 0},
        {"maxUnavailable": 0},
        "rollout.maxSurge and rollout.maxUnavailable cannot both be 0",
    ),
    Rule(
        "spec.rollout",
        {"type": "Recreate"},
        {"type": "Recreate", "maxSurge": 1},
        "rollout.maxSurge must be left out",
    ),
    Rule("spec.rollout.type", "RollingUpdate", "OnDelete", "supported values"),
    Rule("spec.rollout.maxSurge", 1, "25%", "must be of type integer"),
    Rule("spec.disruptionBudget", {"maxUnavailable": 2}, {"maxUnavailable": 0}, "greater than or equal to 1"),
    Rule("spec.disruptionBudget.enabled", False, "no", "must be of type boolean"),
    Rule("spec.service.type", "LoadBalancer", "ExternalName", "supported values"),
    Rule(
        "spec.service.labels",
        {"team": "llm"},
        {"app.kubernetes.io/name": "x"},
        "service.labels must not set keys that begin with sloserve.dev/ or app.kubernetes.io/",
    ),
    Rule(
        "spec.service.annotations",
        {"example.com/lb": "internal"},
        {"sloserve.dev/applied-hash": "x"},
        "service.annotations must not set keys that begin with",
    ),
    Rule(
        "spec.networkPolicy",
        {
            "enabled": True,
            "allowFrom": [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}],
        },
        {"enabled": True, "allowFrom": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "networkPolicy.allowFrom needs in each entry either ipBlock, or podSelector",
    ),
    Rule(
        "spec.networkPolicy.allowFrom",
        [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
        [{}],
        "networkPolicy.allowFrom needs in each entry",
    ),
    Rule(
        "spec.networkPolicy.allowFrom",
        [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}],
        [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}],
        "supported values",
    ),
    Rule("spec.service.ipFamilyPolicy", "SingleStack", "Both", "supported values"),
    Rule("spec.engine.runAs", "cluster", "1000", "supported values"),
    Rule(
        "spec.engine",
        {"resourceClaims": [GPUS], "accelerator": "claims"},
        {"resourceClaims": [GPUS], "accelerator": "cpu"},
        "engine.accelerator must be claims with engine.resourceClaims",
    ),
    Rule(
        "spec.engine",
        {"resourceClaims": [{**GPUS, "count": 2}], "tensorParallelSize": 2},
        {"resourceClaims": [{**GPUS, "count": 2}], "tensorParallelSize": 4},
        "the counts in engine.resourceClaims must add up to engine.tensorParallelSize times",
    ),
    Rule(
        "spec.engine",
        {
            "resourceClaims": [{**GPUS, "count": 2}, {**GPUS, "name": "b", "count": 4}],
            "tensorParallelSize": 2,
            "pipelineParallelSize": 3,
        },
        {"resourceClaims": [{**GPUS, "count": 2}, {**GPUS, "name": "b", "count": 4}]},
        "each rank of the engine needs a device",
    ),
    Rule(
        "spec.engine",
        {"resourceClaims": [{"name": "one", "resourceClaimName": "a"}]},
        {"resourceClaims": [{"name": "one"}]},
        "engine.resourceClaims needs in each entry exactly one of resourceClaimTemplateName",
    ),
    Rule("spec.engine", {"resourceClaims": [GPUS]}, {"resourceClaims": [GPUS, GPUS]}, "Duplicate value"),
    Rule(
        "spec",
        spec(engine={"accelerator": "claims"}, podTemplate={"spec": {"resourceClaims": [GPUS]}}),
        spec(engine={"accelerator": "claims"}, podTemplate={"spec": {}}),
        "engine.accelerator claims needs the claims in engine.resourceClaims",
    ),
    Rule("spec.monitoring.scrape", False, "no", "must be of type boolean"),
    Rule(
        "spec.podTemplate.metadata.labels",
        {"team": "llm"},
        {"sloserve.dev/name": "other"},
        "podTemplate.metadata.labels must not set keys that begin with",
    ),
    Rule(
        "spec.podTemplate.metadata.annotations",
        {"example.com/inject": "true"},
        {"sloserve.dev/config-revision": "x"},
        "podTemplate.metadata.annotations must not set keys that begin with",
    ),
    Rule(
        "spec.podTemplate",
        pod(containers=[{**MAIN, "env": []}, {"name": "log", "image": "x", "command": ["y"]}]),
        pod(containers=[{**MAIN, "args": ["--port=1"]}]),
        "podTemplate must not set image, command or args of the container main",
    ),
    Rule(
        "spec.podTemplate",
        pod(containers=[{"name": "log", "image": "x", "livenessProbe": {"exec": {"command": ["y"]}}}]),
        pod(containers=[{**MAIN, "livenessProbe": {"exec": {"command": ["y"]}}}]),
        "podTemplate must not set lifecycle or probes of the container main",
    ),
    Rule(
        "spec.podTemplate",
        pod(affinity={"nodeAffinity": {}}, volumes=[{"name": "a", "emptyDir": {}}]),
        pod(terminationGracePeriodSeconds=1),
        "podTemplate must not set terminationGracePeriodSeconds: use engine.drainTimeoutSeconds",
    ),
    Rule(
        "spec.podTemplate", pod(containers=[MAIN]), pod(containers=[{"image": "x"}]), "name: Required value"
    ),
]

CACHE: dict[str, Any] = {"size": "10Gi", "storageClassName": "a"}
# (before, a change that is taken, a change that is refused, what the refusal says)
TRANSITIONS: list[tuple[Any, Any, Any, str]] = [
    (CACHE, {**CACHE, "size": "20Gi"}, {**CACHE, "size": "5Gi"}, "storage.modelCache.size cannot shrink"),
    (
        CACHE,
        {**CACHE, "size": 10 * 2**30},
        {**CACHE, "size": "9999Mi"},
        "size cannot shrink: give the old size",
    ),
    (
        CACHE,
        {"existingClaim": "weights"},
        {**CACHE, "storageClassName": "b"},
        "storage.modelCache.storageClassName and accessModes cannot change",
    ),
    (CACHE, CACHE, {"size": "10Gi"}, "storageClassName and accessModes cannot change once the claim is made"),
    (CACHE, CACHE, {**CACHE, **RWX}, "storageClassName and accessModes cannot change"),
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
    assert spec["sloClasses"][0]["objectivePercent"] == 99
