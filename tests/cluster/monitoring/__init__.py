"""A real Prometheus in the test cluster, run by a real prometheus-operator.

`install(cluster)` brings both up in namespace `monitoring` and gives a `Prometheus` to query; `uninstall`
takes them away. CRDs, rights and the operator's Deployment are those that its own module ships, with our
images.
"""

from __future__ import annotations

import json
import re
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import cache, oci, tools
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError

NAMESPACE = "monitoring"
NAME = "tests"
"""Of the Prometheus object."""
OWNER = "slidingserve.dev/owner=tests"
HERE = Path(__file__).parent

# The kinds that one Prometheus over PodMonitors needs; the operator says of the others that they are off.
CRDS = ("podmonitors", "probes", "prometheuses", "prometheusrules", "servicemonitors")
OPERATOR_PARTS = ("service-account", "cluster-role", "cluster-role-binding", "deployment")

# Paths that prometheus-operator has wired in. Not /prometheus: that is where it mounts the data.
IMAGES = {
    "prometheus": "/bin/prometheus",
    "prometheus-operator": "/bin/operator",
    "prometheus-config-reloader": "/bin/prometheus-config-reloader",
    "prometheus-adapter": "/bin/adapter",
}
STACK = ("prometheus", "prometheus-operator", "prometheus-config-reloader")
"""What `install` brings up; for prometheus-adapter see `adapter`."""


@dataclass(frozen=True)
class Sample:
    """One series of an instant query."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """Queries, through the API server's proxy: no port to forward, the same in every kind of cluster."""

    cluster: Cluster

    def query(self, expr: str) -> list[Sample]:
        """Instant query, now. Raises ClusterError with the expression if Prometheus refuses it."""
        data = self._api("query", query=expr)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(series["metric"], float(series["value"][1])) for series in data["result"]]

    def wait_for(
        self, expr: str, enough: Callable[[list[Sample]], bool] = bool, seconds: float = 60
    ) -> list[Sample]:
        """Query until `enough` of the samples (by default: one is there). ClusterError says what came.

        While it waits it has the pod's volumes refreshed: a new PodMonitor then takes seconds, not a minute.
        """
        deadline = time.monotonic() + seconds
        while not enough(samples := self.query(expr)):
            if time.monotonic() > deadline:
                raise ClusterError(f"after {seconds:g} s `{expr}` gives {samples or 'nothing'}")
            self._refresh_configuration()
            time.sleep(1)
        return samples

    def targets(self) -> dict[str, str]:
        """Health (up, down, unknown) of every scraped address."""
        active = self._api("targets", state="active")["activeTargets"]
        return {target["scrapeUrl"]: target["health"] for target in active}

    def rules(self) -> dict[str, str]:
        """Health (ok, err, unknown) of every rule by its name."""
        groups = self._api("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def is_up(self) -> bool:
        """Whether it answers queries."""
        return self.cluster.kubectl_result("get", "--raw", self._path("query", query="1")).returncode == 0

    def _refresh_configuration(self) -> None:
        """Change an annotation of the pod: the kubelet then updates its mounted configuration at once."""
        annotation = f"slidingserve.dev/refresh={time.time()}"
        pods = ("-l", f"operator.prometheus.io/name={NAME}")
        self.cluster.kubectl("-n", NAMESPACE, "annotate", "--overwrite", "pods", *pods, annotation)

    def _api(self, what: str, **parameters: str) -> Any:
        answer = self.cluster.kubectl_result("get", "--raw", self._path(what, **parameters))
        if answer.returncode:
            raise ClusterError(f"Prometheus refused {what} {parameters}: {answer.stderr.strip()}")
        return json.loads(answer.stdout)["data"]

    def _path(self, what: str, **parameters: str) -> str:
        service = f"/api/v1/namespaces/{NAMESPACE}/services/prometheus-operated:web/proxy"
        return f"{service}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"


def install(cluster: Cluster) -> Prometheus:
    """Bring operator and Prometheus up, wait until it answers; harmless if they are up.

    Raises ClusterError if the cluster has a prometheus-operator of someone else: two would fight.
    """
    if _foreign(cluster):
        raise ClusterError(
            "the cluster has prometheus-operator already; use its Prometheus, or take it away: "
            "kubectl get crd prometheuses.monitoring.coreos.com"
        )
    images = {tool: load(cluster, tool) for tool in STACK}
    sources = tools.module_dir("prometheus-operator") / "example"
    with cache.step("prometheus-operator and Prometheus"):
        cluster.kubectl("apply", "-f", "-", stdin=_namespace())
        for plural in CRDS:
            file = sources / "prometheus-operator-crd" / f"monitoring.coreos.com_{plural}.yaml"
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
            cluster.kubectl("label", "--overwrite", "crd", _crd(plural), OWNER)
        for part in OPERATOR_PARTS:
            file = sources / "rbac" / "prometheus-operator" / f"prometheus-operator-{part}.yaml"
            cluster.kubectl("apply", "-f", "-", stdin=_operator_part(file.read_text(), images))
        manifest = (HERE / "prometheus.yaml").read_text().replace("PROMETHEUS_IMAGE", images["prometheus"])
        cluster.kubectl("wait", "--for=condition=Established", *(f"crd/{_crd(plural)}" for plural in CRDS))
        cluster.kubectl("apply", "-f", "-", stdin=manifest)
        prometheus = Prometheus(cluster)
        _wait(cluster, prometheus)
    return prometheus


def uninstall(cluster: Cluster) -> None:
    """Take everything away that `install` made, and all PodMonitors and rules with their CRDs."""
    if _foreign(cluster):
        raise ClusterError("the cluster's prometheus-operator is not of these tests; nothing was removed")
    roles = ("slidingserve-tests-prometheus", "prometheus-operator")
    gone = ("delete", "--ignore-not-found", "--timeout=90s")
    cluster.kubectl(*gone, "clusterrole,clusterrolebinding", *roles)
    cluster.kubectl(*gone, "namespace", NAMESPACE)
    cluster.kubectl(*gone, "crd", *(_crd(plural) for plural in CRDS))


def scrapeable_pod(cluster: Cluster, port: str, labels: dict[str, str]) -> dict[str, Any]:
    """A pod with real metrics at `/metrics` on a port of that name: a Prometheus with no work.

    Stands in for an engine where only the way from a pod to a query is of interest.
    """
    container = {
        "name": "main",
        "image": load(cluster, "prometheus"),
        "imagePullPolicy": "IfNotPresent",
        "args": ["--config.file=/dev/null", "--storage.tsdb.path=/tmp/data"],
        "ports": [{"name": port, "containerPort": 9090}],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "metrics", "labels": labels},
        "spec": spec,
    }


def _crd(plural: str) -> str:
    return f"{plural}.monitoring.coreos.com"


def _foreign(cluster: Cluster) -> bool:
    """Whether CRDs of prometheus-operator are there that do not bear our label."""
    key, value = OWNER.split("=")
    found = cluster.kubectl("get", "crd", "-o", "json", "--ignore-not-found", _crd("prometheuses"))
    return bool(found) and json.loads(found)["metadata"].get("labels", {}).get(key) != value


def load(cluster: Cluster, tool: str) -> str:
    """Write the image of a static binary, make it known to the cluster, and return its name."""
    binary = tools.path(tool)
    name = f"localhost/slidingserve/{tool}:{tools.TABLE[tool].version}"
    path = IMAGES[tool]
    config = {"Entrypoint": [path], "User": "65534:65534"}
    key = cache.digest(binary.parent.name, name, repr(config), path)

    def write(work: Path) -> None:
        oci.write_image(work, name, {path: binary}, config, {"/tmp": 0o1777})

    cluster.load_image(cache.make("images", tool, key, write), name)
    return name


def _namespace() -> str:
    key, value = OWNER.split("=")
    labels = {key: value}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    )


def _operator_part(text: str, images: dict[str, str]) -> str:
    """One of the module's manifests, moved to our namespace and images."""
    text = text.replace("namespace: default", f"namespace: {NAMESPACE}")
    text = re.sub(r"image: \S+", f"image: {images['prometheus-operator']}", text)
    reloader = images["prometheus-config-reloader"]
    return re.sub(r"(--prometheus-config-reloader=)\S+", rf"\g<1>{reloader}", text)


def _wait(cluster: Cluster, prometheus: Prometheus, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not prometheus.is_up():
        if time.monotonic() > deadline:
            pods = cluster.kubectl("-n", NAMESPACE, "get", "pods,prometheus", "-o", "wide")
            raise ClusterError(f"Prometheus does not answer after {seconds:g} s:\n{pods}")
        time.sleep(0.5)
