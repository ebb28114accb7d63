"""Accelerators by resource claims (dynamic resource allocation), on a real API server and scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import Cluster
from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "resource-claims.yaml"


def pod_of(space: Space, name: str) -> dict[str, object]:
    def found() -> list[dict[str, object]]:
        text = space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "json")
        return list(json.loads(text)["items"])

    (pod,) = until(found, "a pod")
    return dict(pod)


@pytest.fixture
def device_class(cluster: Cluster) -> Iterator[None]:
    """The class that the example names, as a driver brings it; no node has a device of it."""
    template, _ = yaml.safe_load_all(EXAMPLE.read_text())
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    selector = {"cel": {"expression": "device.driver == 'none.example.com'"}}
    obj = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": request["exactly"]["deviceClassName"]},
        "spec": {"selectors": [selector]},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(obj))
    yield
    cluster.kubectl("delete", "-f", "-", stdin=json.dumps(obj))


@pytest.mark.usefixtures("device_class")
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

    def told() -> bool:
        message = str(space.condition("chat", "Ready").get("message"))
        return (
            "waits for its claim gpus, which is to be made from the ResourceClaimTemplate absent" in message
        )

    until(told, "the claim named", 60)
