"""Helm on a real cluster: install, upgrade with the CRD, removal that leaves engines alone, rights.

The operator's image is a stand-in: what the operator does is for the contract and e2e tests.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART
from tests.chart.release import CRD, STAND_IN, Release
from tests.cluster import monitoring
from tests.cluster.api import Cluster
from tests.cluster.cache import wait_for

pytestmark = pytest.mark.cluster


def older(directory: Path) -> Path:
    """A copy of the chart with a CRD of yesterday: without the column Endpoint."""
    copy = shutil.copytree(CHART, directory / "sloserve")
    file = copy / "files" / "crds" / f"{CRD}.yaml"
    document = yaml.safe_load(file.read_text())
    (version,) = document["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    version["additionalPrinterColumns"] = [column for column in columns if column["name"] != "Endpoint"]
    assert len(version["additionalPrinterColumns"]) == len(columns) - 1
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def columns(cluster: Cluster) -> list[str]:
    return cluster.kubectl(
        "get", "crd", CRD, "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}"
    ).split()


def operators(cluster: Cluster, namespace: str) -> list[str]:
    selector = ("-l", "app.kubernetes.io/component=operator", "-o", "jsonpath={.items[*].metadata.uid}")
    return cluster.kubectl("-n", namespace, "get", "pods", *selector).split()


def cluster_roles(cluster: Cluster) -> str:
    return cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")


def test_it_installs_upgrades_with_its_crd_and_leaves_resources_when_removed(
    release: Release, tmp_path: Path
) -> None:
    cluster, namespace = release.cluster, release.namespace
    strict = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, strict)

    notes = release.install({}, "--wait", "--timeout=90s", chart=older(tmp_path))
    assert "It serves SLOServe resources in every namespace." in notes
    assert "Endpoint" not in columns(cluster)
    first = operators(cluster, namespace)

    resource = {
        "apiVersion": "sloserve.dev/v1alpha1",
        "kind": "SLOServe",
        "metadata": {"name": "stays"},
        "spec": {"model": {"uri": "file:///models/demo"}, "engine": {"accelerator": "cpu"}, "replicas": 0,
                 "sloClasses": [{"name": "any", "ttft": {"slowdown": 10}, "tbtMilliseconds": 100}]},
    }  # fmt: skip
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(resource))

    values = {**STAND_IN, "operator": {"logLevel": "debug"}}
    release.helm("upgrade", "--wait", "--timeout=90s", chart=CHART, values=values)
    assert "Endpoint" in columns(cluster)
    assert len(first) == 1
    assert first != operators(cluster, namespace)

    release.helm("uninstall", "--wait")
    left = cluster.kubectl(
        "-n", namespace, "get", "sloserves,deployments,serviceaccounts", "-o", "name"
    ).split()
    assert "sloserve.sloserve.dev/stays" in left
    assert "deployment.apps/sloserve" not in left
    assert f"{namespace}-sloserve" not in cluster.kubectl(
        "get", "clusterroles,clusterrolebindings", "-o", "name"
    )

    release.install({})
    cluster.kubectl("-n", namespace, "delete", "sloserve", "stays", "--timeout=30s")


def test_the_operator_may_do_what_it_needs_and_nothing_else(release: Release) -> None:
    release.install({})
    read, write = ("get", "list", "watch"), ("create", "patch", "delete")
    resource = "sloserves.sloserve.dev"
    children = ("deployments.apps", "services", "configmaps", "serviceaccounts", "poddisruptionbudgets")
    needed = [
        *((verb, kind) for kind in children for verb in (*read, *write)),
        *((verb, kind) for kind in ("pods", resource) for verb in read),
        *(("patch", "pods/status"), ("patch", f"{resource}/status"), ("update", f"{resource}/finalizers")),
        ("create", "events.events.k8s.io"),
    ]
    refused = [
        *((verb, "secrets") for verb in (*read, *write)),
        *((verb, kind) for kind in ("pods", resource) for verb in (*write, "update")),
        *(("get", "pods/log"), ("create", "pods/exec"), ("get", "nodes"), ("escalate", "clusterroles")),
    ]
    assert [right for right in needed if not release.can(*right, namespace="default")] == []
    assert [right for right in refused if release.can(*right, namespace="default")] == []


def test_it_has_rights_only_in_the_namespaces_that_it_watches(release: Release) -> None:
    release.install({"watchNamespaces": [release.namespace], "rbac": {"aggregateToUserRoles": False}})
    assert release.can("create", "deployments.apps", release.namespace)
    assert not release.can("create", "deployments.apps", "default")
    assert not release.can("list", "sloserves.sloserve.dev", "default")
    assert f"{release.namespace}-sloserve" not in cluster_roles(release.cluster)


def test_whoever_may_edit_a_namespace_may_edit_its_resources(release: Release) -> None:
    release.install({})
    for role in ("view", "edit"):
        binding = ("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")
        release.cluster.kubectl("-n", release.namespace, *binding)

    def may(user: str, verb: str, what: str = "sloserves.sloserve.dev") -> bool:
        return release.can(verb, what, release.namespace, user)

    # Aggregation into the built-in roles is a controller's work: it follows within a second.
    wait_for("SLOServes in the built-in roles", lambda: may("editer", "create") and may("viewer", "list"), 20)
    assert may("editer", "patch", "sloserves.sloserve.dev/scale")
    assert not may("viewer", "patch")
    assert not may("editer", "patch", "sloserves.sloserve.dev/status")


def test_an_engine_is_scraped_under_its_resources_name(release: Release) -> None:
    prometheus = monitoring.install(release.cluster)
    release.install({"monitoring": {"podMonitor": {"enabled": True}}})
    labels = {
        "app.kubernetes.io/name": "sloserve-engine",
        "app.kubernetes.io/managed-by": "sloserve-operator",
        "sloserve.dev/name": "chat",
    }
    pod = monitoring.scrapeable_pod(release.cluster, "http", labels)
    release.cluster.kubectl("-n", release.namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    up = f'up{{namespace="{release.namespace}", sloserve="chat"}}'
    (sample,) = prometheus.wait_for(up, lambda found: [s.value for s in found] == [1])
    assert sample.labels["pod"] == "metrics"


def test_a_dashboard_is_there_for_grafanas_sidecar(release: Release) -> None:
    release.install({"grafana": {"dashboards": {"enabled": True}}})
    selector = ("get", "configmaps", "-l", "grafana_dashboard=1", "-o", "json", "-n", release.namespace)
    (found,) = json.loads(release.cluster.kubectl(*selector))["items"]
    board: dict[str, Any] = json.loads(found["data"]["slidingserve-slo.json"])
    assert board["title"] == "SlidingServe: SLO"
