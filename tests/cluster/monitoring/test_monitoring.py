"""The monitoring stack itself: a PodMonitor anywhere in the cluster becomes samples that can be queried."""

from collections.abc import Iterator

import pytest

from tests.cluster import api, monitoring
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError
from tests.cluster.monitoring import Prometheus

pytestmark = pytest.mark.cluster

COREDNS = """
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: coredns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  podMetricsEndpoints: [{portNumber: 9153, path: /metrics}]
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    chosen = api.get()
    chosen.up()
    return chosen


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster) -> Iterator[Prometheus]:
    """Installed for this module, and taken away again unless it was there before."""
    before = Prometheus(cluster).is_up()
    yield monitoring.install(cluster)
    if not before:
        monitoring.uninstall(cluster)
        assert "monitoring" not in cluster.kubectl("get", "namespaces,crd,clusterrole", "-o", "name")


def test_a_second_install_changes_nothing(cluster: Cluster, prometheus: Prometheus) -> None:
    state = ("-n", "monitoring", "get", "pods,prometheus", "-o", "jsonpath={.items[*].metadata.uid}")
    before = cluster.kubectl(*state)
    assert monitoring.install(cluster) == prometheus
    assert cluster.kubectl(*state) == before


def test_a_pod_monitor_in_any_namespace_is_scraped(cluster: Cluster, prometheus: Prometheus) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=COREDNS)
    try:
        (up,) = prometheus.wait_for(
            'up{namespace="kube-system"}', lambda found: [s.value for s in found] == [1]
        )
        assert up.labels["job"] == "kube-system/coredns"
        assert prometheus.query("count(coredns_build_info)")[0].value == 1
        assert "up" in prometheus.targets().values()
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=COREDNS)


def test_an_expression_that_prometheus_refuses_is_named(prometheus: Prometheus) -> None:
    with pytest.raises(ClusterError, match=r"sum by \(\("):
        prometheus.query("sum by ((")


def test_waiting_in_vain_says_what_was_there(prometheus: Prometheus) -> None:
    with pytest.raises(ClusterError, match="after 0.1 s `absent_metric` gives nothing"):
        prometheus.wait_for("absent_metric", seconds=0.1)
