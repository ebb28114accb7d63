"""Small images for tests that need pods: the probe with manifests around it, and a stand-in for an engine."""

import json
from typing import Any

from tests.cluster import cache, oci, tools
from tests.cluster.api import Cluster
from tests.cluster.runtime import binary_image

PROBE = "localhost/slidingserve/probe:1"
STAND_IN = "localhost/slidingserve/standin:1"
"""Runs as an engine's image does; tests/cluster/standin/main.go says what it can be told to do."""


def load_probe(cluster: Cluster) -> None:
    """Load the probe image; a no-op where the cluster has it."""
    cluster.load_image(binary_image("probe", PROBE), PROBE)


def load_stand_in(cluster: Cluster) -> None:
    """Load the stand-in for an engine; a no-op where the cluster has it."""
    binary = tools.path("standin")
    place = {"/usr/bin/slidingserve": binary, "/usr/bin/sh": binary}
    key = cache.digest(binary.parent.name, STAND_IN, *place)
    layout = cache.make("images", "standin", key, lambda work: oci.write_image(work, STAND_IN, place, {}))
    cluster.load_image(layout, STAND_IN)


def pod(name: str, *arguments: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs the probe with `arguments` (default: serve on 8080), labelled `app: <name>`."""
    container = {
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "IfNotPresent",
        "args": [*(arguments or ("serve", ":8080"))],
        "resources": spec.pop("resources", {}),
    }
    if not arguments:
        container["readinessProbe"] = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def service(name: str, app: str) -> dict[str, Any]:
    """A Service on port 80 in front of the pods labelled `app: <app>`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def apply(cluster: Cluster, namespace: str, *objects: dict[str, Any]) -> None:
    """`kubectl apply` the objects in the namespace."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(items))
