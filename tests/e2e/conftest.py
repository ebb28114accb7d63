"""The stack that the e2e tests share, brought up once a session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cluster import monitoring, tools
from tests.cluster.api import Cluster
from tests.cluster.monitoring import Prometheus
from tests.demo import install
from tests.demo.engine import Engine
from tests.demo.kube import Kube, Object, load
from tests.e2e.audit import Audit

NAMESPACE = "sloserve-e2e"
KEEP = os.environ.get("KEEP_CLUSTER") == "1"
"""Leave the stack for the next run, and take over what the last one left: for work on the tests."""
EXAMPLE = load(install.EXAMPLE)[0]


@dataclass(frozen=True)
class Demo:
    """The shared engine and the resource that made it."""

    kube: Kube
    name: str
    engine: Engine

    def pod(self) -> Object:
        """Its one pod."""
        (pod,) = self.kube.pods(self.name)
        return pod

    def identity(self) -> tuple[str, int]:
        """What a restart would change: the pod's UID and its restart count."""
        pod = self.pod()
        return pod["metadata"]["uid"], sum(c["restartCount"] for c in pod["status"]["containerStatuses"])

    def config(self) -> dict[str, Any]:
        """Data of the ConfigMap that carries the live settings, as the operator last wrote it."""
        found = self.kube.get("configmap", f"{self.name}-config")
        assert found is not None
        return dict(found["data"])

    def restore(self) -> None:
        """Make the spec the example's again and wait until it is in force."""
        # A patch, since the operator's status makes a replacement that carries a version fail now and then.
        patch = json.dumps([{"op": "replace", "path": "/spec", "value": EXAMPLE["spec"]}])
        self.kube.run("patch", "sloserve", self.name, "--type=json", "-p", patch)
        self.kube.wait_condition(self.name, "ConfigApplied", seconds=60)


@pytest.fixture(scope="session")
def prometheus(cluster: Cluster) -> Prometheus:
    """A real Prometheus; first, because the chart's PodMonitors need its CRDs."""
    return monitoring.install(cluster)


@pytest.fixture(scope="session")
def kube(cluster: Cluster, prometheus: Prometheus) -> Iterator[Kube]:
    """An empty namespace under a freshly installed operator."""
    tools.path("helm")  # the tested one, whatever this machine has
    was_installed = install.is_installed(cluster)
    install.install_chart(cluster, monitoring=True)
    found = Kube(cluster, NAMESPACE)
    if not KEEP:
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s", timeout=130)
    found.ensure_namespace()
    yield found
    if KEEP:
        return
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", timeout=130)
    if not was_installed:
        install.uninstall_chart(cluster)


@pytest.fixture(scope="session")
def shared(kube: Kube) -> Iterator[Demo]:
    """examples/cpu-demo.yaml, applied as it is and Ready."""
    name = EXAMPLE["metadata"]["name"]
    kube.run("apply", "-f", str(install.EXAMPLE))
    install.wait_ready(kube, name, print)
    engine = Engine(kube.service_url(name))
    yield Demo(kube, name, engine)
    engine.close()


@pytest.fixture
def demo(shared: Demo) -> Iterator[Demo]:
    """The shared engine, handed on as the example says."""
    yield shared
    shared.restore()


@pytest.fixture
def audit(cluster: Cluster) -> Audit:
    """The audit log from here on."""
    path = cluster.audit_log()
    assert path is not None, f"a {cluster.kind} cluster gives no audit log: use CLUSTER=local"
    return Audit(path)


@pytest.fixture
def make(kube: Kube) -> Iterator[Any]:
    """Make SLOServes like the example with another name and changed spec; they go at the end of the test."""
    made: list[str] = []

    def one(name: str, **spec: Any) -> str:
        obj = {**EXAMPLE, "metadata": {"name": name}, "spec": {**EXAMPLE["spec"], **spec}}
        made.append(name)
        kube.apply(obj)
        return name

    yield one
    for name in made:
        kube.remove(name)
