"""The monitoring stack itself: a PodMonitor anywhere in the cluster becomes samples that can be queried."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cluster import monitoring
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError
from tests.cluster.monitoring import Prometheus

pytestmark = pytest.mark.cluster

POD_MONITOR = """
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: any}
spec:
  selector: {matchLabels: {app: any}}
  podMetricsEndpoints: [{port: web, path: /metrics}]
"""


@pytest.fixture(scope="module")
def prometheus(cluster: Cluster) -> Iterator[Prometheus]:
    """Installed for this module, and taken away again unless it was there before."""
    before = Prometheus(cluster).is_up()
    yield monitoring.install(cluster)
    if not before:
        monitoring.uninstall(cluster)
        left = cluster.kubectl("get", "namespaces,crd,clusterroles,clusterrolebindings", "-o", "name")
        assert not [
            name for name in left.split() if re.search(r"/monitoring|monitoring\.coreos|prometheus", name)
        ]


def test_a_second_install_changes_nothing(cluster: Cluster, prometheus: Prometheus) -> None:
    state = ("-n", "monitoring", "get", "pods,prometheus", "-o", "jsonpath={.items[*].metadata.uid}")
    before = cluster.kubectl(*state)
    assert monitoring.install(cluster) == prometheus
    assert cluster.kubectl(*state) == before


def test_a_pod_monitor_in_any_namespace_is_scraped(
    cluster: Cluster, prometheus: Prometheus, namespace: str
) -> None:
    pod = monitoring.scrapeable_pod(cluster, "web", labels={"app": "any"})
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=POD_MONITOR)
    up = f'up{{namespace="{namespace}"}}'
    (sample,) = prometheus.wait_for(up, lambda found: [s.value for s in found] == [1])
    assert sample.labels["job"] == f"{namespace}/any"
    assert prometheus.query(f'count(prometheus_build_info{{namespace="{namespace}"}})')[0].value == 1


def test_an_expression_that_prometheus_refuses_is_named(prometheus: Prometheus) -> None:
    with pytest.raises(ClusterError, match=r"sum by \(\("):
        prometheus.query("sum by ((")


def test_waiting_in_vain_says_what_was_there(prometheus: Prometheus) -> None:
    with pytest.raises(ClusterError, match=r"after 0\.1 s `absent_metric` gives nothing"):
        prometheus.wait_for("absent_metric", seconds=0.1)
