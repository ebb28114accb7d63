"""Pods run, can be talked to, and find each other: what every other test of the product takes for granted."""

import subprocess

import httpx
import pytest

from tests.cluster import tools
from tests.cluster.api import Cluster
from tests.cluster.cache import wait_for
from tests.cluster.pods import apply, load_probe, pod, service
from tests.ports import free_port

pytestmark = pytest.mark.cluster


@pytest.fixture
def web(cluster: Cluster, namespace: str) -> str:
    """A ready pod `web` behind a Service `site`; the value is the namespace they are in."""
    load_probe(cluster)
    apply(cluster, namespace, pod("web"), service("site", "web"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "-n", namespace, "--timeout=60s")
    return namespace


def fetch(url: str) -> str | None:
    """The body of a page, or None while nobody answers (kube-proxy may lag behind a pod's readiness)."""
    try:
        return httpx.get(url, timeout=2).text
    except httpx.TransportError:
        return None


def field(cluster: Cluster, namespace: str, name: str, path: str) -> str:
    return cluster.kubectl("get", name, "-n", namespace, "-o", f"jsonpath={{{path}}}")


def test_the_host_reaches_a_pod_and_its_service_by_their_addresses(cluster: Cluster, web: str) -> None:
    for address in (
        field(cluster, web, "pod/web", ".status.podIP") + ":8080",
        field(cluster, web, "service/site", ".spec.clusterIP"),
    ):
        wait_for(address, lambda at=address: fetch(f"http://{at}/") == "web\n", seconds=20)  # type: ignore[misc]


def test_a_service_without_ready_pods_answers_nobody(cluster: Cluster, web: str) -> None:
    address = field(cluster, web, "service/site", ".spec.clusterIP")
    wait_for("the service", lambda: fetch(f"http://{address}/") is not None, seconds=20)
    cluster.kubectl("delete", "pod", "web", "-n", web)
    wait_for("the end of the service", lambda: fetch(f"http://{address}/") is None, seconds=20)


def test_logs_and_exec_go_through_the_api_server(cluster: Cluster, web: str) -> None:
    answer = cluster.kubectl("exec", "web", "-n", web, "--", "/probe", "get", "http://127.0.0.1:8080/hello")
    assert answer == "200 OK\nweb\n"
    wait_for(
        "the log line", lambda: "GET /hello from 127.0.0.1" in cluster.kubectl("logs", "web", "-n", web), 10
    )


def test_a_port_is_forwarded_to_a_service(cluster: Cluster, web: str) -> None:
    port = free_port()
    command = [str(tools.path("kubectl")), "port-forward", "-n", web, "service/site", f"{port}:80"]
    forward = subprocess.Popen(command, env=cluster.environment(), stdout=subprocess.DEVNULL)
    try:
        wait_for("the forwarded port", lambda: fetch(f"http://127.0.0.1:{port}/") == "web\n", seconds=20)
    finally:
        forward.terminate()
        forward.wait()


def test_pods_resolve_services_by_every_form_of_their_name(cluster: Cluster, web: str) -> None:
    address = field(cluster, web, "service/site", ".spec.clusterIP")
    for name in ("site", f"site.{web}", f"site.{web}.svc", f"site.{web}.svc.cluster.local"):
        found = cluster.kubectl("exec", "web", "-n", web, "--", "/probe", "resolve", name)
        assert found.split() == [address], name


def test_a_name_outside_the_cluster_does_not_resolve(cluster: Cluster, web: str) -> None:
    found = cluster.kubectl_result("exec", "web", "-n", web, "--", "/probe", "resolve", "example.invalid")
    assert found.returncode != 0
    assert "no such host" in found.stderr


def test_a_pod_reaches_another_and_itself_through_services(cluster: Cluster, web: str) -> None:
    apply(cluster, web, pod("other"), service("another", "other"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/other", "-n", web, "--timeout=60s")
    for name, answering in (("site", "web"), ("another", "other")):

        def answers(url: str = f"http://{name}/", pod: str = answering) -> bool:
            page = cluster.kubectl_result("exec", "web", "-n", web, "--", "/probe", "get", url)
            return page.stdout == f"200 OK\n{pod}\n"

        wait_for(f"http://{name}/ from a pod", answers, seconds=20)


def test_the_ninth_gpu_is_not_there(cluster: Cluster, namespace: str) -> None:
    load_probe(cluster)
    gpus = [pod(f"gpu-{count}", resources={"limits": {"nvidia.com/gpu": count}}) for count in (8, 1)]
    apply(cluster, namespace, gpus[0])
    cluster.kubectl("wait", "--for=condition=Ready", "pod/gpu-8", "-n", namespace, "--timeout=60s")
    apply(cluster, namespace, gpus[1])
    reason = '.status.conditions[?(@.type=="PodScheduled")].message'
    wait_for(
        "the scheduler's refusal",
        lambda: "Insufficient nvidia.com/gpu" in field(cluster, namespace, "pod/gpu-1", reason),
        seconds=20,
    )
    cluster.kubectl("delete", "pod", "gpu-8", "-n", namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/gpu-1", "-n", namespace, "--timeout=60s")
