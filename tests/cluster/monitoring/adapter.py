"""A real prometheus-adapter beside the Prometheus of `monitoring.install`: custom metrics for autoscalers."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster import cache, monitoring
from tests.cluster.api import Cluster

API = "v1beta2.custom.metrics.k8s.io"
MANIFEST = Path(__file__).parent / "adapter.yaml"


def install(cluster: Cluster, config: str) -> None:
    """Bring it up with that configuration and wait until the API server reaches it; harmless if it is up."""
    image = monitoring.load(cluster, "prometheus-adapter")
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prometheus-adapter", "namespace": monitoring.NAMESPACE},
        "data": {"config.yaml": config},
    }
    with cache.step("prometheus-adapter"):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(settings))
        cluster.kubectl("apply", "-f", "-", stdin=MANIFEST.read_text().replace("ADAPTER_IMAGE", image))
        cluster.kubectl("wait", "--for=condition=Available", f"apiservice/{API}", "--timeout=90s")


def uninstall(cluster: Cluster) -> None:
    """Take it away."""
    text = MANIFEST.read_text().replace("ADAPTER_IMAGE", "none")
    cluster.kubectl("delete", "--ignore-not-found", "--timeout=60s", "-f", "-", stdin=text)
    cluster.kubectl(
        "-n", monitoring.NAMESPACE, "delete", "configmap", "prometheus-adapter", "--ignore-not-found"
    )
