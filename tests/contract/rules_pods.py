"""Rules of storage, rollout, network and pods: one manifest taken, one refused; changes that are refused."""

from __future__ import annotations

from typing import Any

from tests.contract.rules import Rule, slo
from tests.contract.space import spec

MAIN = {"name": "main"}
RWX = {"size": "1Gi", "accessModes": ["ReadWriteMany"]}


def pod(**changes: Any) -> dict[str, Any]:
    return {"spec": changes}


RULES = [
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
