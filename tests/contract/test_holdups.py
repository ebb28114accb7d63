"""What stands in the way of one child, on the real API server: all else goes on, and the status says it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.space import Operator, Space, manifest, until
from tests.contract.test_live import POD

pytestmark = pytest.mark.cluster


def webhook(space: Space, name: str) -> dict[str, Any]:
    """Of a service that is not there, for budgets alone: every write of one fails with 500."""
    rule = {
        "apiGroups": ["policy"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["poddisruptionbudgets"],
    }
    hook = {
        "name": "budgets.nowhere.example",
        "clientConfig": {"service": {"name": "nowhere", "namespace": space.name}},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def told(space: Space, replicas: int) -> bool:
    """Whether this scale is in the Deployment, and the status speaks of it."""
    obj = space.must("sloserve", "chat")
    current = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
    return bool(current and space.must("deployment", "chat")["spec"]["replicas"] == replicas)


def refused(space: Space) -> bool:
    words = ("annotate", "pdb", "chat", "a=b", "--overwrite", "--dry-run=server")
    return space.cluster.kubectl_result("-n", space.name, *words).returncode != 0


def test_a_webhook_that_fails_for_budgets_holds_up_neither_scale_nor_status(
    space: Space, operator: Operator
) -> None:
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    name = f"{space.name}-budgets"
    space.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(webhook(space, name)))
    try:
        until(lambda: refused(space), "the webhook is in force")
        space.patch("chat", {"disruptionBudget": {"maxUnavailable": 3}})
        message = space.reason("chat", "ChildNotWritten")["message"]
        assert "PodDisruptionBudget chat" in message
        assert "failed calling webhook" in message
        space.run("scale", "sloserve", "chat", "--replicas=2")
        until(lambda: told(space, 2), "the scale is handed down and told of")
    finally:
        space.cluster.kubectl("delete", "validatingwebhookconfiguration", name)
    until(lambda: space.condition("chat", "Ready")["reason"] != "ChildNotWritten", "it is written", 60)


def test_a_deployment_that_a_finalizer_holds_and_pods_of_strangers_are_not_counted(
    space: Space, operator: Operator
) -> None:
    space.apply({**POD, "metadata": {**POD["metadata"], "name": "stranger"}})
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    assert space.must("sloserve", "chat")["status"]["pods"] == []

    def holders(operation: dict[str, Any]) -> None:
        change = json.dumps([{"path": "/metadata/finalizers", **operation}])
        space.run("patch", "deployment", "chat", "--type=json", "-p", change)

    holders({"op": "add", "value": ["audit.example/hold"]})
    space.run("delete", "deployment", "chat", "--wait=false")
    message = space.reason("chat", "ChildBeingDeleted")["message"]
    assert "Deployment chat" in message
    assert "audit.example/hold" in message
    holders({"op": "remove"})
    space.reason("chat", "ScaledToZero")


def test_without_a_right_on_claims_a_new_operator_serves_the_rest_and_says_what_is_missing(
    space: Space,
) -> None:
    operator = Operator(space)
    operator.granted = operator.grant()
    (role,) = json.loads(space.run("get", "roles", "-o", "json"))["items"]
    rules = [rule for rule in role["rules"] if "persistentvolumeclaims" not in rule["resources"]]
    body = json.dumps({"rules": rules})
    space.run("patch", "role", role["metadata"]["name"], "--type=merge", "-p", body)
    operator.start()
    try:
        space.apply(manifest("plain"))
        space.apply(manifest("cached", storage={"modelCache": {"size": "1Gi"}}))
        space.reason("plain", "ScaledToZero")
        message = space.reason("cached", "Forbidden")["message"]
        assert "PersistentVolumeClaim cached-model-cache" in message
        assert 'cannot list resource "persistentvolumeclaims"' in message
        assert space.must("configmap", "cached-config")
        (event,) = until(lambda: events(space, "Forbidden"), "an event")
        assert event["lastTimestamp"], "which kubectl sorts by"
    finally:
        operator.kill()


def events(space: Space, reason: str) -> list[dict[str, Any]]:
    items = json.loads(space.run("get", "events", "--sort-by=.lastTimestamp", "-o", "json"))["items"]
    return [e for e in items if e["involvedObject"]["kind"] == "SLOServe" and e["reason"] == reason]
