"""Builds what the demo needs, side by side: Go compiles while the images' parts are downloaded and unpacked.

Only what the demo itself uses: no DNS server, no Prometheus, no second Helm; the tests build those when
they need them. What is in the cache already costs nothing here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster import debian, images, images_build, tools
from tests.cluster.api import Cluster

HELM_OLDEST = (3, 17)
"""The first Helm that knows --take-ownership."""


def prepare(cluster: Cluster) -> None:
    """Everything that takes long, before the cluster comes up. Raises ClusterError with the first reason."""
    if cluster.kind == "local":
        images_too = debian.IMAGES if images_build.needs_buildah() else ()
        debian.require((*debian.LOCAL_CLUSTER, *images_too))
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(_programs, cluster.kind)]
        if cluster.kind != "current":
            work.append(pool.submit(_images))
    for part in work:
        part.result()


def _programs(kind: str) -> None:
    for name in ("kc", "pause") if kind == "local" else ("kubectl",):
        tools.path(name)
    helm()


def _images() -> None:
    for name in ("operator", "engine-cpu"):
        images.build(name)


def helm() -> Path:
    """Ours if it is built, else this machine's if it is recent enough, else ours, built now."""
    found = tools.at_hand("helm") or _own_helm()
    return found or tools.path("helm")


def _own_helm() -> Path | None:
    program = shutil.which("helm")
    if program is None:
        return None
    said = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False).stdout
    return Path(program) if recent(said) else None


def recent(said: str) -> bool:
    """Whether `helm version --short` names a Helm that can do what the demo asks of it."""
    numbers = re.match(r"v(\d+)\.(\d+)", said)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= HELM_OLDEST
