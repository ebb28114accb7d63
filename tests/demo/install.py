"""Brings the product into a cluster as a user would: images, the chart by Helm, one resource by kubectl.

Used by ``__main__`` and by the fixtures of tests/e2e, so that both walk the same path.  Safe to repeat.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster import images
from tests.cluster.api import Cluster
from tests.cluster.cache import ClusterError
from tests.demo import prepare
from tests.demo.kube import Kube

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "sloserve"
EXAMPLE = ROOT / "examples" / "cpu-demo.yaml"
RELEASE = "sloserve"
SYSTEM = "sloserve-system"
CRD = "sloserves.sloserve.dev"

CRASH_SECONDS = 60.0
"""How long an engine that keeps crashing is given to come round."""

Say = Callable[[str], None]


def helm(cluster: Cluster, *arguments: str, timeout: float = 240) -> str:
    """Run helm against the cluster; ClusterError with its words on failure."""
    command = [str(prepare.helm()), *arguments]
    done = subprocess.run(
        command, env=cluster.environment(), capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        raise ClusterError(f"helm {' '.join(arguments[:3])} failed: {done.stderr.strip()}")
    return done.stdout


def install_chart(cluster: Cluster, *, monitoring: bool = False) -> None:
    """Provide the images, install or upgrade the release, wait until the operator is ready."""
    chosen = image_values(cluster)
    if monitoring:
        chosen["monitoring.podMonitor.enabled"] = "true"
        chosen["monitoring.podMonitor.interval"] = "2s"
        chosen["monitoring.prometheusRule.enabled"] = "true"
    # On a cluster of ours, a CRD that someone applied by hand may become the release's.
    own = () if cluster.kind == "current" else ("--take-ownership",)
    settings = [word for item in chosen.items() for word in ("--set", "=".join(item))]
    helm(
        cluster, "upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM, "--create-namespace",
        "--wait", "--timeout", "3m", *own, *settings,
    )  # fmt: skip


def image_values(cluster: Cluster, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The chart's image values: built and loaded here, or for a cluster of the user's from their registry.

    Raises ClusterError where such a cluster has no SLIDINGSERVE_REGISTRY to pull from.
    """
    if cluster.kind == "current":
        registry = environ.get("SLIDINGSERVE_REGISTRY")
        if not registry:
            raise ClusterError(
                "SLIDINGSERVE_REGISTRY is not set: a cluster of yours pulls its images. Push"
                " slidingserve/operator and slidingserve/engine-cpu (python -m tests.cluster.images build) to"
                " a registry; SLIDINGSERVE_REGISTRY is its prefix, SLIDINGSERVE_IMAGE_TAG the tag"
            )
        tag = environ.get("SLIDINGSERVE_IMAGE_TAG", "")
        tags = {"operator": tag, "engineCpu": tag}
    else:
        loaded = images.ensure(cluster, ("operator", "engine-cpu"))
        registry = "localhost"
        tags = {
            "operator": loaded["operator"].rsplit(":", 1)[1],
            "engineCpu": loaded["engine-cpu"].rsplit(":", 1)[1],
        }
    # An empty tag is the chart's own version.
    return {"images.registry": registry} | {f"images.{name}.tag": tag for name, tag in tags.items() if tag}


def is_installed(cluster: Cluster) -> bool:
    """Whether the release is there."""
    return bool(helm(cluster, "list", "--namespace", SYSTEM, "--short", "--filter", f"^{RELEASE}$").strip())


def uninstall_chart(cluster: Cluster) -> None:
    """Take the release, its CRD with every resource, and its namespace away.

    ClusterError, and nothing is done, where a cluster of the user's has other SLOServes: they would go too.
    """
    crd = cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "name")
    if crd and cluster.kind == "current":
        where = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}"
        if others := cluster.kubectl("get", "sloserves", "-A", "-o", where).split():
            raise ClusterError(
                f"the operator and its CRD stay, because {', '.join(others[:5])} would go with them:"
                " delete those first, or leave it so"
            )
    if crd:
        cluster.kubectl("delete", "sloserves", "--all", "-A", "--timeout=90s", check=False)
    helm(cluster, "uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found", "--wait")
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")
    cluster.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", "--timeout=90s")


def wait_ready(kube: Kube, name: str, say: Say, seconds: float = 420) -> None:
    """Wait until a resource is Ready with its settings in force, saying each change of a condition.

    Raises TimeoutError with the conditions if it does not get there.
    """
    deadline, told = time.monotonic() + seconds, ""
    while True:
        found = kube.resource(name)
        conditions = {c["type"]: c for c in found.get("status", {}).get("conditions", [])}
        line = "  ".join(f"{kind}={c['status']} ({c['reason']})" for kind, c in conditions.items())
        if line != told:
            say(line or "no conditions yet")
            told = line
        current = [
            conditions.get(kind, {}).get("status") == "True"
            and conditions[kind]["observedGeneration"] == found["metadata"]["generation"]
            for kind in ("Ready", "ConfigApplied")
        ]
        if all(current):
            return
        if conditions.get("Ready", {}).get("reason") == "CrashLoop":
            deadline = min(deadline, time.monotonic() + CRASH_SECONDS)
        if time.monotonic() > deadline:
            why = "; ".join(
                f"{kind}: {c['message']}" for kind, c in conditions.items() if c["status"] != "True"
            )
            raise TimeoutError(f"SLOServe {name} did not get ready: {why or 'the operator has not seen it'}")
        time.sleep(0.5)
