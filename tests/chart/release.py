"""A release of the chart on a real cluster, with a stand-in for the operator's image.

The stand-in answers every probe: what the operator does is for other tests. Used through the fixtures of
conftest.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sloserve_operator.api import CRD as CRD

from tests.chart.helm import CHART, Values, helm
from tests.cluster.api import Cluster
from tests.cluster.runtime import binary_image

IMAGE = "localhost/slidingserve/operator-stand-in:1"
STAND_IN: Values = {
    "images": {
        "registry": "localhost",
        "operator": {"repository": "slidingserve/operator-stand-in", "tag": "1"},
    }
}
OWNER = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")


@dataclass(frozen=True)
class Release:
    """A release named `sloserve` in a namespace of the test."""

    cluster: Cluster
    namespace: str
    tool: str = "helm"

    def helm(self, verb: str, *flags: str, chart: Path | None = None, values: Values | None = None) -> str:
        """Run a helm command on this release; AssertionError with helm's words if it fails."""
        target = [str(chart)] if chart else []
        arguments = (verb, "sloserve", *target, "-n", self.namespace, *flags)
        done = helm(*arguments, cluster=self.cluster, values=values, tool=self.tool)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, values: Values, *arguments: str, chart: Path = CHART) -> str:
        """Install, taking over a CRD that another release left or holds (given back by the fixture `crd`)."""
        merged = {**STAND_IN, **values}
        return self.helm("install", "--take-ownership", *arguments, chart=chart, values=merged)

    def can(self, verb: str, what: str, namespace: str, user: str = "") -> bool:
        """Whether the operator's account (or another user) may do this."""
        account = user or f"system:serviceaccount:{self.namespace}:sloserve"
        kind, _, part = what.partition("/")  # kubectl would take pods/log for a pod named log
        question = ("auth", "can-i", verb, kind, f"--subresource={part}", "-n", namespace, f"--as={account}")
        return self.cluster.kubectl_result(*question).stdout.strip() == "yes"


@contextmanager
def own_crd(cluster: Cluster) -> Iterator[None]:
    """Lets releases install and upgrade the CRD; at the end it belongs to whom it did, or is gone."""
    found = cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "json")
    answers: dict[str, object] = {"Entrypoint": ["/probe", "serve", ":8080"], "User": "1000"}
    cluster.load_image(binary_image("probe", IMAGE, answers), IMAGE)
    yield
    if not found:
        cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")
        return
    before = json.loads(found)["metadata"].get("annotations", {})
    owner = [f"{key}={before[key]}" if key in before else f"{key}-" for key in OWNER]
    cluster.kubectl("annotate", "--overwrite", "crd", CRD, *owner)
