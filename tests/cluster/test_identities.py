"""Each component is itself: RBAC, the node authorizer and admission act on what it asks for."""

import json
from pathlib import Path

import pytest

from tests.cluster.api import Cluster
from tests.cluster.local import LocalCluster
from tests.cluster.pods import apply, load_probe, pod

pytestmark = pytest.mark.cluster

SECRET = {"apiVersion": "v1", "kind": "Secret", "stringData": {"word": "sesame"}}


@pytest.fixture
def local(cluster: Cluster) -> LocalCluster:
    """The cluster, if it is the local one: only there the components' own credentials are at hand."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip(f"credentials of the components are not at hand on CLUSTER={cluster.kind}")
    return cluster


def asked_as(local: LocalCluster, who: str, *arguments: str) -> str:
    """What kubectl says, both streams, with the component's own credentials."""
    node_view = local.node.lib / "kubernetes" / f"{who}.conf"
    server = f"https://{local.place.node_address}:6443"
    done = local.kubectl_result("--kubeconfig", str(node_view), "--server", server, *arguments)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("who", "name"),
    [
        ("scheduler", "system:kube-scheduler"),
        ("controller-manager", "system:kube-controller-manager"),
        ("proxy", "system:kube-proxy"),
        ("kubelet", "system:node:node1"),
    ],
)
def test_every_component_has_an_identity_of_its_own(local: LocalCluster, who: str, name: str) -> None:
    review = json.loads(asked_as(local, who, "auth", "whoami", "-o", "json"))
    assert review["status"]["userInfo"]["username"] == name
    assert "system:masters" not in review["status"]["userInfo"]["groups"]


def test_the_scheduler_binds_pods_and_cannot_create_them(local: LocalCluster, namespace: str) -> None:
    ask = ("auth", "can-i", "create", "pods", "-n", namespace)
    assert asked_as(local, "scheduler", *ask).strip() == "no"
    assert asked_as(local, "scheduler", *ask, "--subresource=binding").strip() == "yes"


def test_a_kubelet_reads_only_the_secrets_of_its_own_pods(local: LocalCluster, namespace: str) -> None:
    load_probe(local)
    mounted, other = ({**SECRET, "metadata": {"name": name}} for name in ("mounted", "other"))
    volume = {"volumes": [{"name": "secret", "secret": {"secretName": "mounted"}}]}
    apply(local, namespace, mounted, other, pod("reader", **volume))
    local.kubectl("wait", "--for=condition=Ready", "pod/reader", "-n", namespace, "--timeout=60s")
    assert "secret/mounted" in asked_as(
        local, "kubelet", "get", "secret/mounted", "-n", namespace, "-o", "name"
    )
    assert "no relationship found" in asked_as(local, "kubelet", "get", "secret/other", "-n", namespace)


def test_a_kubelet_sees_its_own_node_and_no_other(local: LocalCluster) -> None:
    local.kubectl(
        "apply", "-f", "-", stdin='{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node2"}}'
    )
    try:
        assert "node/node1" in asked_as(local, "kubelet", "get", "node", "node1", "-o", "name")
        assert "only its own Node object" in asked_as(local, "kubelet", "get", "node", "node2")
    finally:
        local.kubectl("delete", "node", "node2")


def test_a_kubelet_cannot_give_its_node_a_restricted_label(local: LocalCluster) -> None:
    said = asked_as(local, "kubelet", "label", "node", "node1", "node-restriction.kubernetes.io/team=mine")
    assert "is not allowed to modify labels: node-restriction.kubernetes.io/team" in said


def test_a_pod_without_rights_is_refused_by_the_api_server(cluster: Cluster, namespace: str) -> None:
    load_probe(cluster)
    apply(cluster, namespace, pod("asker"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/asker", "-n", namespace, "--timeout=60s")
    ask = ("exec", "asker", "-n", namespace, "--", "/probe", "api")
    assert cluster.kubectl(*ask, "/version").startswith("200")
    refused = cluster.kubectl(*ask, f"/api/v1/namespaces/{namespace}/secrets")
    assert refused.startswith("403")
    assert f"system:serviceaccount:{namespace}:default" in refused


def test_a_write_is_in_the_audit_log_with_its_body_when_it_is_answered(
    local: LocalCluster, namespace: str
) -> None:
    log = local.audit_log()
    assert isinstance(log, Path)
    before = log.stat().st_size
    local.kubectl("create", "configmap", "noted", "-n", namespace, "--from-literal=word=sesame")
    local.kubectl("create", "secret", "generic", "hidden", "-n", namespace, "--from-literal=word=sesame")
    with log.open() as file:
        file.seek(before)
        entries = [json.loads(line) for line in file]
    writes = {
        entry["objectRef"]["name"]: entry
        for entry in entries
        if entry["verb"] == "create" and entry.get("objectRef", {}).get("namespace") == namespace
    }
    assert writes["noted"]["user"]["username"] == "slidingserve-admin"
    assert writes["noted"]["requestObject"]["data"] == {"word": "sesame"}
    assert "requestObject" not in writes["hidden"]
