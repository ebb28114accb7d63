"""Builds what the demo needs, side by side: Go compiles while the images' parts are downloaded and unpacked.

Only what the demo itself uses: no DNS server, no Prometheus, no second Helm; the tests build those when
they need them. What is in the cache already costs nothing here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster import debian, images, images_build, tools
from tests.cluster.api import Cluster


def prepare(cluster: Cluster) -> None:
    """Everything that takes long, before the cluster comes up. Raises ClusterError with the first reason."""
    if cluster.kind == "local":
        images_too = debian.IMAGES if images_build.needs_buildah() else ()
        debian.require((*debian.LOCAL_CLUSTER, *images_too))
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(_programs, cluster)]
        if cluster.kind != "current":
            work.append(pool.submit(_images))
    for part in work:
        part.result()


def _programs(cluster: Cluster) -> None:
    if cluster.kind == "local":
        tools.path("pause")
    cluster.kubectl_program()
    helm()


def _images() -> None:
    for name in ("operator", "engine-cpu"):
        images.build(name)


def helm() -> Path:
    """Ours if it is built, else this machine's if it is recent enough, else ours, built now."""
    return tools.at_hand("helm") or tools.own("helm") or tools.path("helm")
