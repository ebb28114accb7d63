"""What the demo and the e2e tests do with a cluster: objects as dicts, waits with deadlines, ways to a pod.

Above ``tests.cluster.api`` (kubectl on any kind of cluster); knows SLOServe resources, but no test.
"""

from __future__ import annotations

import atexit
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import Cluster
from tests.polling import until as until

Object = dict[str, Any]
CHILDREN = ("deployment", "service", "configmap", "serviceaccount")


class Kube:
    """One namespace of a cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.reach = Reach(cluster)

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """kubectl in the namespace; ClusterError with its words on failure."""
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin, timeout=timeout)

    def try_run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """kubectl in the namespace, whatever comes of it."""
        return self.cluster.kubectl_result("-n", self.namespace, *arguments, stdin=stdin)

    def ensure_namespace(self) -> None:
        """Make the namespace unless it is there."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def apply(self, *objects: Object) -> None:
        """kubectl apply of objects."""
        self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, kind: str, name: str) -> Object | None:
        """The object, or None."""
        found = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found.strip() else None

    def items(self, kind: str, selector: str = "") -> list[Object]:
        """Objects of a kind with the labels."""
        chosen = ("-l", selector) if selector else ()
        found: list[Object] = json.loads(self.run("get", kind, *chosen, "-o", "json"))["items"]
        return found

    def resource(self, name: str) -> Object:
        """A SLOServe that must be there."""
        found = self.get("sloserve", name)
        if found is None:
            raise LookupError(f"no SLOServe {name} in namespace {self.namespace}")
        return found

    def condition(self, name: str, kind: str) -> Mapping[str, str]:
        """A condition that speaks of the present generation; empty if there is none yet."""
        found = self.resource(name)
        for condition in found.get("status", {}).get("conditions", []):
            if (
                condition["type"] == kind
                and condition["observedGeneration"] == found["metadata"]["generation"]
            ):
                return dict(condition)
        return {}

    def wait_condition(
        self, name: str, kind: str, status: str = "True", seconds: float = 180
    ) -> Mapping[str, str]:
        """Wait until a condition of the present generation has the status."""

        def look() -> Mapping[str, str] | None:
            condition = self.condition(name, kind)
            return condition if condition.get("status") == status else None

        try:
            found = until(look, f"{kind}={status} of SLOServe {name}", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {dict(self.condition(name, kind))}") from error
        return found

    def patch(self, name: str, spec: Object) -> Object:
        """Merge-patch the spec of a SLOServe; returns the object as the API server stored it."""
        patch = json.dumps({"spec": spec})
        return dict(
            json.loads(self.run("patch", "sloserve", name, "--type=merge", "-p", patch, "-o", "json"))
        )

    def pods(self, name: str) -> list[Object]:
        """Engine pods of a resource that are not on their way out."""
        found = self.items("pod", f"sloserve.dev/name={name}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def children(self, name: str) -> list[str]:
        """What the resource's labels still find, as kind/name, pods included."""
        kinds = ",".join((*CHILDREN, "replicaset", "pod"))
        return self.run("get", kinds, "-l", f"sloserve.dev/name={name}", "-o", "name").split()

    def remove(self, name: str, seconds: float = 120) -> None:
        """Delete a resource and wait until its children are gone; a no-op if it is not there."""
        self.run("delete", "sloserve", name, "--ignore-not-found", "--wait=false")
        until(lambda: not self.children(name), f"children of {name} are gone", seconds)

    def service_url(self, name: str) -> str:
        """Base URL (no path) of a resource's Service, from this machine."""
        return self.reach.service(self.namespace, name)

    def pod_url(self, pod: Object, port: int = 8000) -> str:
        """Base URL (no path) of a port of one pod, from this machine."""
        return self.reach.pod(pod, port)


class Reach:
    """Ways from this machine to Services and pods: straight if local, else by `kubectl proxy`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._proxy = ""

    def service(self, namespace: str, name: str) -> str:
        """Base URL of port http of a Service."""
        if self.cluster.kind != "local":
            return f"{self._base()}/api/v1/namespaces/{namespace}/services/{name}:http/proxy"
        service = json.loads(self.cluster.kubectl("-n", namespace, "get", "service", name, "-o", "json"))
        port = next(port["port"] for port in service["spec"]["ports"] if port["name"] == "http")
        return f"http://{service['spec']['clusterIP']}:{port}"

    def pod(self, pod: Object, port: int) -> str:
        """Base URL of a port of a pod."""
        meta = pod["metadata"]
        if self.cluster.kind != "local":
            return f"{self._base()}/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{port}/proxy"
        return f"http://{pod['status']['podIP']}:{port}"

    def _base(self) -> str:
        if not self._proxy:
            command = [str(self.cluster.kubectl_program()), "proxy", "--port=0"]
            process = subprocess.Popen(
                command,
                env=self.cluster.environment(),
                stdout=subprocess.PIPE,
                text=True,
                stderr=subprocess.STDOUT,
            )
            atexit.register(process.kill)
            assert process.stdout is not None
            line = process.stdout.readline()
            if not (match := re.search(r"127\.0\.0\.1:\d+", line)):
                raise ConnectionError(f"kubectl proxy did not start: {line.strip()}")
            self._proxy = f"http://{match.group()}"
        return self._proxy


def load(path: Path) -> list[Object]:
    """The objects of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]
