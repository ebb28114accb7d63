"""A resource is never called Ready for a generation that does not run, and its children stay its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.cluster.local import LocalCluster
from tests.cluster.pods import STAND_IN, load_stand_in
from tests.contract.space import Object, Operator, Space, holds, manifest, until

pytestmark = pytest.mark.cluster
MANAGER = "sloserve-operator"


def served(space: Space, name: str = "chat", **changes: Any) -> Object:
    """A resource with one stand-in engine, Ready; its pod."""
    load_stand_in(space.cluster)
    engine = {"accelerator": "cpu", "image": STAND_IN, "drainTimeoutSeconds": 0}
    space.apply(manifest(name, replicas=1, engine=engine, **changes))
    space.reason(name, "AllReplicasReady", seconds=120)
    return pod_of(space, name)


def pod_of(space: Space, name: str = "chat") -> Object:
    found = json.loads(space.run("get", "pods", "-l", f"sloserve.dev/name={name}", "-o", "json"))["items"]
    (pod,) = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return dict(pod)


def owners(space: Space, kind: str, name: str) -> list[Any]:
    return list(space.must(kind, name)["metadata"].get("ownerReferences", []))


def uid(space: Space, kind: str, name: str) -> str:
    return str(space.must(kind, name)["metadata"]["uid"])


@pytest.fixture
def controllers(space: Space) -> Iterator[LocalCluster]:
    """The cluster, whose controller manager a test may stop; it runs again at the end."""
    if not isinstance(space.cluster, LocalCluster):
        pytest.skip("only a local cluster lets its controller manager be stopped")
    yield space.cluster
    space.cluster.node.start("kube-controller-manager")


def stop_controllers(cluster: LocalCluster) -> None:
    process = cluster.node.process("kube-controller-manager")
    assert process is not None
    process.kill()


def ready_for(space: Space) -> int:
    """The generation for which the status calls it Ready; 0 for none."""
    found = space.condition("chat", "Ready")
    return int(found["observedGeneration"]) if found["status"] == "True" else 0


def test_while_the_controllers_stand_still_a_new_generation_is_not_called_ready(
    space: Space, operator: Operator, controllers: LocalCluster
) -> None:
    before = served(space)
    stop_controllers(controllers)
    generation = space.patch("chat", {"engine": {"maxModelLength": 64}})
    condition = until(
        lambda: c if (c := space.condition("chat", "Ready"))["observedGeneration"] == generation else None,
        "a status of the new generation",
    )
    assert condition["status"] == "False"
    assert space.condition("chat", "Progressing")["reason"] == "RollingOut"
    holds(lambda: ready_for(space) < generation, "it is not Ready for what nobody rolls out", 5)
    controllers.node.start("kube-controller-manager")
    until(lambda: ready_for(space) == generation, "Ready once it runs", 120)
    assert pod_of(space)["metadata"]["uid"] != before["metadata"]["uid"]


def test_while_the_controllers_stand_still_an_engine_that_is_gone_is_not_called_ready(
    space: Space, operator: Operator, controllers: LocalCluster
) -> None:
    """The Deployment goes on counting it."""
    pod = served(space)["metadata"]["name"]
    stop_controllers(controllers)
    space.run("delete", "pod", pod, "--grace-period=0", "--force")
    condition = space.reason("chat", "Pending", "WaitingForDrain", seconds=30)
    assert condition["status"] == "False"
    counts = space.must("deployment", "chat")["status"]
    assert counts["availableReplicas"] == 1, "it is the operator that looked at the pods"
    controllers.node.start("kube-controller-manager")
    space.reason("chat", "AllReplicasReady", seconds=120)


def test_a_child_whose_owner_reference_is_taken_away_is_taken_back(space: Space, operator: Operator) -> None:
    pod = served(space)["metadata"]["uid"]
    kinds = {"configmap": "chat-config", "service": "chat", "deployment": "chat"}
    before = {kind: uid(space, kind, name) for kind, name in kinds.items()}
    patch = json.dumps([{"op": "remove", "path": "/metadata/ownerReferences"}])
    for kind, name in kinds.items():
        space.run("patch", kind, name, "--type=json", "-p", patch)
    for kind, name in kinds.items():
        until(partial(owners, space, kind, name), f"{kind} is ours")
    assert {kind: uid(space, kind, name) for kind, name in kinds.items()} == before
    assert space.condition("chat", "Ready")["status"] == "True"
    assert pod_of(space)["metadata"]["uid"] == pod


def test_engines_that_were_orphaned_serve_on_under_a_resource_made_anew(
    space: Space, operator: Operator
) -> None:
    pod = served(space)["metadata"]["uid"]
    before = uid(space, "deployment", "chat")
    space.run("delete", "sloserve", "chat", "--cascade=orphan", "--timeout=60s")
    until(lambda: "ownerReferences" not in space.must("deployment", "chat")["metadata"], "nobody's")
    served(space)
    owner = space.must("deployment", "chat")["metadata"]["ownerReferences"][0]["uid"]
    assert owner == uid(space, "sloserve", "chat")
    assert (uid(space, "deployment", "chat"), pod_of(space)["metadata"]["uid"]) == (before, pod)


@pytest.mark.parametrize("lacks", ["manager", "hash", "label", "name"])
def test_an_object_that_lacks_one_of_our_marks_stays_somebody_elses(
    space: Space, operator: Operator, lacks: str
) -> None:
    labels = {"app.kubernetes.io/managed-by": MANAGER, "sloserve.dev/name": "chat"}
    annotations = {"sloserve.dev/applied-hash": "0123456789ab"}
    if lacks == "label":
        del labels["app.kubernetes.io/managed-by"]
    if lacks == "name":
        labels["sloserve.dev/name"] = "other"
    if lacks == "hash":
        annotations = {}
    metadata = {"name": "chat-config", "labels": labels, "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mine": "1"}}
    manager = "kubectl" if lacks == "manager" else MANAGER
    space.run("create", "-f", "-", f"--field-manager={manager}", stdin=json.dumps(body))
    before = space.must("configmap", "chat-config")
    space.apply(manifest())
    condition = space.reason("chat", "NameCollision")
    assert "ConfigMap chat-config exists and was not made by this resource" in condition["message"]
    assert space.must("configmap", "chat-config") == before


def test_events_are_not_told_again_by_an_operator_that_starts_anew(space: Space, operator: Operator) -> None:
    served(space)
    space.apply(manifest("broken", replicas=1, engine={"tensorParallelSize": 64}))
    space.reason("broken", "InsufficientGPU", seconds=60)
    told = until(lambda: events(space), "events")
    operator.stop()
    operator.start()
    space.apply(manifest("later"))
    space.reason("later", "ScaledToZero")
    assert [e for e in events(space) if "later" not in e] == told


def events(space: Space) -> list[str]:
    items = json.loads(space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
    ours = [e for e in items if e["regarding"]["kind"] == "SLOServe"]
    return sorted(f"{e['regarding']['name']} {e['action']} {e['reason']}" for e in ours)


@pytest.mark.soak
def test_a_node_that_no_longer_reports_is_the_reason(space: Space, operator: Operator) -> None:
    """Takes the time after which Kubernetes believes it."""
    served(space)
    cluster = space.cluster
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only a local cluster lets its kubelet be stopped")
    kubelet = cluster.node.process("kubelet")
    assert kubelet is not None
    kubelet.kill()
    try:
        condition = space.reason("chat", "NodeLost", seconds=150)
        assert "its node node1 no longer reports" in condition["message"]
    finally:
        cluster.node.start("kubelet")
    space.reason("chat", "AllReplicasReady", seconds=120)
