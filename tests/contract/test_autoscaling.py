"""The SLOServe as the target of everything that scales: kubectl, Kubernetes' own autoscaler, GitOps, KEDA."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import tools
from tests.cluster.api import Cluster
from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster

DOCS = (Path(__file__).parents[2] / "docs" / "autoscaling.md").read_text()
TARGET = {"apiVersion": "sloserve.dev/v1alpha1", "kind": "SLOServe", "name": "chat"}
# Its pods wait for more accelerators than there are.
ENGINE = {"tensorParallelSize": 64}


def replicas(space: Space) -> tuple[int, int]:
    """The resource's number and the Deployment's."""
    found = (space.must(kind, "chat")["spec"]["replicas"] for kind in ("sloserve", "deployment"))
    return next(found), next(found)


def scaled(space: Space, number: int) -> None:
    until(lambda: replicas(space) == (number, number), f"{number} here and there", 60)


def autoscaler(least: int, most: int) -> dict[str, Any]:
    """Without a metric to be had it still keeps the number within its bounds."""
    metric = {"name": "none"}
    target = {"type": "AverageValue", "averageValue": "1"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat"},
        "spec": {
            "scaleTargetRef": TARGET,
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Pods", "pods": {"metric": metric, "target": target}}],
        },
    }


def test_it_is_scaled_to_zero_and_back_and_names_its_pods(space: Space, operator: Operator) -> None:
    space.apply(manifest(engine=ENGINE, replicas=1))
    path = f"/apis/sloserve.dev/v1alpha1/namespaces/{space.name}/sloserves/chat/scale"
    for number in (2, 0, 1):
        space.run("scale", "sloserve", "chat", f"--replicas={number}")
        scaled(space, number)

        def seen(number: int = number) -> bool:
            scale = json.loads(space.run("get", "--raw", path))
            status = {"replicas": number, "selector": "sloserve.dev/name=chat"}
            return bool(scale["spec"].get("replicas", 0) == number and scale["status"] == status)

        until(seen, f"{number} by the scale subresource")
        pods = space.run("get", "pods", "-l", "sloserve.dev/name=chat", "-o", "name").split()
        assert len(pods) == number
    space.run("scale", "sloserve", "chat", "--replicas=0")
    space.reason("chat", "ScaledToZero")
    assert "service/chat" in space.children("chat")


def test_the_autoscaler_of_kubernetes_scales_it_and_nobody_fights(space: Space, operator: Operator) -> None:
    space.apply(manifest(engine=ENGINE, replicas=1))
    space.reason("chat", "InsufficientGPU", seconds=60)
    mark = operator.mark()
    space.apply(autoscaler(2, 3))
    scaled(space, 2)
    space.run("scale", "sloserve", "chat", "--replicas=5")
    scaled(space, 3)
    space.run("scale", "deployment", "chat", "--replicas=7")
    until(lambda: any("deployments chat" in w for w in operator.writes(mark)), "the operator puts it right")
    scaled(space, 3)
    assert [w for w in operator.writes(mark) if re.match(r"\w+ sloserves(/scale)? ", w)] == []

    space.run("scale", "sloserve", "chat", "--replicas=0")
    scaled(space, 0)

    def paused() -> bool:
        conditions = space.must("hpa", "chat").get("status", {}).get("conditions", [])
        return any(c["reason"] == "ScalingDisabled" for c in conditions)

    until(paused, "the autoscaler stands still at 0", 60)
    assert replicas(space) == (0, 0)


def test_a_manifest_without_replicas_leaves_the_autoscalers_number(space: Space, operator: Operator) -> None:
    obj = manifest(engine=ENGINE)
    del obj["spec"]["replicas"]
    space.apply(obj)
    until(lambda: space.get("deployment", "chat"), "a Deployment")
    scaled(space, 1)
    space.run("scale", "sloserve", "chat", "--replicas=2")
    scaled(space, 2)
    obj["spec"]["engine"] = {"tensorParallelSize": 64, "maxModelLength": 64}
    space.apply(obj)
    until(lambda: "--max-model-len=64" in json.dumps(space.must("deployment", "chat")), "the change")
    assert replicas(space) == (2, 2)


@pytest.fixture
def keda(cluster: Cluster) -> Iterator[None]:
    """KEDA's CRD, as its release ships it, without KEDA."""
    crd = (
        tools.source("github.com/kedacore/keda/v2", "v2.21.0") / "config/crd/bases/keda.sh_scaledobjects.yaml"
    )
    cluster.kubectl("apply", "--server-side", "-f", str(crd))
    cluster.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=60s")
    yield
    cluster.kubectl("delete", "crd", "scaledobjects.keda.sh", "--timeout=60s")


def test_kedas_crd_takes_the_documented_scaled_object(space: Space, keda: None) -> None:
    (text,) = re.findall(r"```yaml\n# KEDA\n(.*?)```", DOCS, re.DOTALL)
    made = json.loads(
        space.run("create", "-f", "-", "-o", "json", "--dry-run=server", "--validate=strict", stdin=text)
    )
    assert made["spec"]["scaleTargetRef"] == TARGET
    assert made["spec"] == yaml.safe_load(text)["spec"]
