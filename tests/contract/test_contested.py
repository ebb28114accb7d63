"""Ready only for pods of this template: a Deployment that somebody changes back is not."""

from __future__ import annotations

import json

import pytest

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster


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
        return space.condition("chat", "Ready").get("reason") == "ChildContested"

    until(contested, "one of them gives way", 60)
    condition = space.condition("chat", "Ready")
    assert condition["status"] == "False"
    assert "spec.template.spec.containers" in condition["message"]
    assert "by field manager gitops" in condition["message"]
    events = json.loads(space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
    assert "ChildContested" in {event["reason"] for event in events}
