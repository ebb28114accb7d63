"""Ready only for what runs of this template and is this resource's; one child at fault holds up no other."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster
FINALIZER = "example.com/hold"


def test_a_budget_that_a_webhook_fails_holds_up_neither_scale_nor_status(
    space: Space, operator: Operator, failing_budgets: str
) -> None:
    space.apply(manifest())
    until(lambda: space.get("deployment", "chat"), "the other children are there")
    space.run("scale", "sloserve", "chat", "--replicas=1")
    until(lambda: space.must("deployment", "chat")["spec"]["replicas"] == 1, "the scale is handed down")
    generation = space.must("sloserve", "chat")["metadata"]["generation"]

    def told() -> bool:
        return bool(space.must("sloserve", "chat").get("status", {}).get("observedGeneration") == generation)

    until(told, "the status speaks of this generation")
    condition = space.reason("chat", "ChildNotWritten", seconds=60)
    assert condition["status"] == "False"
    assert "PodDisruptionBudget chat" in condition["message"]
    assert failing_budgets in condition["message"], "the server's words"
    space.cluster.kubectl("delete", "validatingwebhookconfiguration", failing_budgets)
    until(lambda: space.get("pdb", "chat"), "it is written when it can be", 90)


@pytest.fixture
def failing_budgets(space: Space) -> Iterator[str]:
    """An admission webhook that nobody serves, asked about disruption budgets of this namespace alone."""
    name = f"fails-{secrets.token_hex(3)}.example.com"
    rule = {
        "apiGroups": ["policy"], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["poddisruptionbudgets"],
    }  # fmt: skip
    hook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    space.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    yield name
    space.cluster.kubectl("delete", "validatingwebhookconfiguration", name, "--ignore-not-found")


def test_a_deployment_that_is_held_by_a_finalizer_is_not_ready_and_says_what_holds_it(
    space: Space, operator: Operator
) -> None:
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    before = space.must("deployment", "chat")["metadata"]["uid"]
    held = json.dumps({"metadata": {"finalizers": [FINALIZER]}})
    space.run("patch", "deployment", "chat", "--type=merge", "-p", held)
    space.run("delete", "deployment", "chat", "--wait=false")
    condition = space.reason("chat", "WaitingForCleanup")
    assert condition["status"] == "False"
    assert f"Deployment chat is being deleted and held by {FINALIZER}" in condition["message"]
    free = json.dumps({"metadata": {"finalizers": None}})
    space.run("patch", "deployment", "chat", "--type=merge", "-p", free)

    def anew() -> bool:
        found = space.get("deployment", "chat")
        return found is not None and found["metadata"]["uid"] != before

    until(anew, "it is made anew")
    space.reason("chat", "ScaledToZero")


def test_a_deployment_that_somebody_changes_back_is_not_ready_and_says_who(
    space: Space, operator: Operator
) -> None:
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    foreign = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--foreign"}]

    def contested() -> bool:
        if "--foreign" not in json.dumps(space.must("deployment", "chat")["spec"]["template"]):
            space.run(
                "patch",
                "deployment",
                "chat",
                "--type=json",
                "--field-manager=gitops",
                "-p",
                json.dumps(foreign),
            )
        return space.condition("chat", "Ready").get("reason") == "Contested"

    until(contested, "one of them gives way", 60)
    condition = space.condition("chat", "Ready")
    assert condition["status"] == "False"
    assert "spec.template.spec.containers" in condition["message"]
    assert "last by field manager 'gitops'" in condition["message"]
    events = json.loads(space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
    assert "Contested" in {event["reason"] for event in events}


def test_a_pod_of_somebody_else_that_bears_our_labels_is_not_counted(
    space: Space, operator: Operator
) -> None:
    space.apply(manifest())
    space.reason("chat", "ScaledToZero")
    labels = space.must("deployment", "chat")["spec"]["template"]["metadata"]["labels"]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "labels": {**labels, "pod-template-hash": "6b7f"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none:1"}]},
    }
    space.run("create", "-f", "-", stdin=json.dumps(body))
    generation = space.patch("chat", {"engine": {"maxModelLength": 64}})

    def told() -> bool:
        return bool(space.must("sloserve", "chat")["status"].get("observedGeneration") == generation)

    until(told, "a look after it came")
    assert space.must("sloserve", "chat")["status"].get("pods", []) == []
    assert space.condition("chat", "ConfigApplied")["reason"] == "NoPods"
