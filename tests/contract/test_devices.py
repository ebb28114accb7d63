"""Accelerators by resource claims (dynamic resource allocation), on a real API server and scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "resource-claims.yaml"


def pod_of(space: Space, name: str) -> dict[str, object]:
    def found() -> list[dict[str, object]]:
        text = space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "json")
        return list(json.loads(text)["items"])

    (pod,) = until(found, "a pod")
    return dict(pod)


def test_an_engine_asks_by_claims_alone_and_says_so_when_no_node_has_the_devices(
    space: Space, operator: Operator
) -> None:
    """The example: two GPUs by a ResourceClaimTemplate, on a cluster whose driver offers none."""
    for obj in yaml.safe_load_all(EXAMPLE.read_text()):
        space.apply(obj)
    message = space.reason("claims", "InsufficientGPU", seconds=60)["message"]
    assert "by the claim gpus (ResourceClaimTemplate two-gpus), and no node has them free" in message
    assert "cannot allocate all claims" in message
    spec = pod_of(space, "claims")["spec"]
    assert isinstance(spec, dict)
    assert spec["resourceClaims"] == [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
    (main,) = spec["containers"]
    assert main["resources"] == {"claims": [{"name": "gpus"}]}, "no count of devices beside the claim"


def test_a_claim_template_that_is_not_there_is_told(space: Space, operator: Operator) -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "absent"}]
    space.apply(manifest(replicas=1, engine={"accelerator": "claims", "resourceClaims": claims}))
    until(lambda: space.condition("chat", "Ready").get("message"), "a message")
    pytest.fail(json.dumps([space.condition("chat", "Ready"), pod_of(space, "chat")["status"]]))
