"""The operator's promises about objects: whose they are, when it writes, what stays after it was killed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.cluster.api import Cluster
from tests.demo import install
from tests.demo.engine import samples
from tests.demo.kube import Kube, until
from tests.e2e.audit import Audit
from tests.e2e.conftest import Demo

pytestmark = pytest.mark.cluster


def test_a_config_map_of_someone_else_stays_untouched_and_is_named(kube: Kube, make: Any) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "clash-config"},
        "data": {"slidingserve.json": "mine"},
    }
    kube.apply(foreign)
    before = kube.get("configmap", "clash-config")
    name = make("clash", replicas=0)
    condition = until(
        lambda: found if (found := kube.condition(name, "Ready")).get("reason") == "NameCollision" else None,
        "NameCollision",
        30,
    )
    assert condition["status"] == "False"
    assert "clash-config" in condition["message"]
    assert kube.get("configmap", "clash-config") == before
    kube.run("delete", "configmap", "clash-config")
    until(lambda: kube.condition(name, "Ready").get("reason") == "ScaledToZero", "it goes on by itself", 90)


def operator_pod(cluster: Cluster) -> dict[str, Any] | None:
    """The operator's one Ready pod."""
    pods = Kube(cluster, install.SYSTEM).items("pod", f"app.kubernetes.io/instance={install.RELEASE}")
    live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    ready = [
        pod
        for pod in live
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    ]
    return ready[0] if len(ready) == 1 == len(live) else None


def kill_operator(cluster: Cluster) -> str:
    """SIGKILL, as far as Kubernetes offers it; returns the UID of the pod that is gone."""
    pod = until(lambda: operator_pod(cluster), "an operator", 60)
    name = pod["metadata"]["name"]
    cluster.kubectl(
        "-n", install.SYSTEM, "delete", "pod", name, "--grace-period=0", "--force", "--wait=false"
    )
    return str(pod["metadata"]["uid"])


def new_operator(cluster: Cluster, old: str) -> None:
    def look() -> bool:
        pod = operator_pod(cluster)
        return pod is not None and pod["metadata"]["uid"] != old

    until(look, "a new operator pod is ready", 90)


def reconciles(cluster: Cluster) -> float:
    """How many reconciles the present operator has finished, by its own metrics; 0 while there is none."""
    if (pod := operator_pod(cluster)) is None:
        return 0
    url = Kube(cluster, install.SYSTEM).pod_url(pod, 9090)
    text = httpx.get(f"{url}/metrics", timeout=10, trust_env=False).text
    return sum(value for name, _, value in samples(text) if name == "sloserve_reconcile_total")


def quiet(audit: Audit) -> None:
    """Return once nothing is left to say about earlier tests: more than one poll of the engines (15 s)."""
    until(lambda: audit.quiet_seconds() > 16, "a quiet operator", 90, every=1)
    audit.restart()


def test_a_second_reconcile_writes_nothing(demo: Demo, cluster: Cluster, audit: Audit) -> None:
    demo.restore()
    quiet(audit)
    before = reconciles(cluster)
    demo.kube.run("annotate", "sloserve", demo.name, "e2e.slidingserve/touched=now", "--overwrite")
    until(lambda: reconciles(cluster) > before, "one more reconcile", 30)
    assert audit.writes() == []
    demo.kube.run("annotate", "sloserve", demo.name, "e2e.slidingserve/touched-")


def test_an_operator_that_starts_again_writes_nothing(demo: Demo, cluster: Cluster, audit: Audit) -> None:
    quiet(audit)
    new_operator(cluster, kill_operator(cluster))
    until(lambda: reconciles(cluster) >= 1, "the new operator's first reconcile", 60)
    assert [write for write in audit.writes() if write.what != "leases"] == []
    generation = demo.kube.patch(demo.name, {"scheduler": {"alpha": 0.55}})["metadata"]["generation"]
    demo.kube.wait_condition(demo.name, "ConfigApplied", seconds=60)
    assert "configmaps" in {write.what for write in audit.writes()}, f"it acts on generation {generation}"


def test_an_operator_killed_in_the_middle_converges_when_it_is_back(
    kube: Kube, cluster: Cluster, make: Any
) -> None:
    name = make("killed", replicas=0)
    until(lambda: kube.children(name), "the first child", 30, every=0.02)
    old = kill_operator(cluster)
    new_operator(cluster, old)
    until(lambda: kube.condition(name, "Ready").get("reason") == "ScaledToZero", "it converged", 60)
    kinds = {child.split("/")[0] for child in kube.children(name)}
    assert {"deployment.apps", "service", "configmap", "serviceaccount"} <= kinds


def test_deleting_the_resource_takes_every_child_with_it(kube: Kube, make: Any) -> None:
    name = make("gone", replicas=0)
    until(lambda: kube.condition(name, "Ready").get("reason") == "ScaledToZero", "it is there", 60)
    assert len(kube.children(name)) >= 4
    kube.run("delete", "sloserve", name)
    until(lambda: not kube.children(name), "no child is left", 60)
