"""5,000 reconciles of the operator against a real API server: time, writes, memory, objects, metric series.

    python -m benchmarks.operator [--reconciles 5000] [--resources 10]

Resources are made, changed and deleted in turn, and each gets looks that change nothing. After a warm-up of a
fifth, memory, live Python objects and metric series must not grow: last line and exit status say so.
It makes a namespace of its own on the cluster that CLUSTER names, and takes it away.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sloserve_operator.api import GROUP, KIND, PLURAL
from sloserve_operator.api.crd import text
from sloserve_operator.cache import Cache
from sloserve_operator.kinds import CHILDREN
from sloserve_operator.kube import Kube
from sloserve_operator.logs import configure_logging
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Images, Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.cluster import api

CRD = f"{PLURAL}.{GROUP}"
LOOKS = 10  # at one life of one resource: made, changed, quiet ones, deleted
GROWTH_MIB = 8.0
GROWTH_OBJECTS = 0.02


@dataclass(frozen=True)
class Sample:
    """What could grow, at one time."""

    reconciles: int
    rss_mib: float
    objects: int
    series: int

    def line(self, seconds: float) -> str:
        """One row of the output."""
        return (
            f"{self.reconciles:>10} {seconds:>8.1f} {self.rss_mib:>8.1f} {self.objects:>9} {self.series:>7}"
        )


class NoEngine:
    """No engine runs, so none is asked."""

    async def read(self, address: str) -> str:
        """Nothing answers."""
        return "is not there"


class Bench:
    """An operator's parts in this process, turned by hand so that every reconcile counts."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.kube, self.cache, self.telemetry = Kube(30), Cache(), Telemetry()
        self.resync = Resync(self.kube, self.cache, KeyedQueue(), self.telemetry, [namespace])
        images = Images("localhost/none/engine:1", "localhost/none/engine-cpu:1")
        self.reconciler = Reconciler(
            self.kube, self.cache, NoEngine(), self.telemetry, images, poll_seconds=60
        )
        self.done = 0

    async def life(self, name: str) -> None:
        """One resource from its creation to its end, in `LOOKS` looks."""
        key = (self.namespace, name)
        obj: dict[str, Any] = await self.kube.create(manifest(self.namespace, name))
        self.cache.put(KIND, obj)
        for look in range(LOOKS - 1):
            if look == LOOKS // 2:
                changed = manifest(self.namespace, name, 80)
                live = await self.kube.get(KIND, *key) or obj
                changed["metadata"] = live["metadata"]
                self.cache.put(KIND, await self.kube.replace(changed))
            await self.reconciler.reconcile(key)
            self.done += 1
        await self.kube.delete(obj)
        for kind in (KIND, *(child.kind for child in CHILDREN)):
            for owned in self.cache.owned(kind, key):
                gone = {**owned, "metadata": {**owned["metadata"], "resourceVersion": str(2**62)}}
                self.cache.drop(kind, gone)
        await self.reconciler.reconcile(key)
        self.done += 1

    def sample(self) -> Sample:
        """Measure."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        series = sum(len(metric.samples) for metric in self.telemetry.registry.collect())
        rss = pages * resource.getpagesize() / 2**20
        return Sample(self.done, rss, len(gc.get_objects()), series)


def manifest(namespace: str, name: str, tbt: int = 40) -> dict[str, Any]:
    """A small resource without engines."""
    classes = [{"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": tbt}]
    spec = {
        "model": {"uri": "file:///models/demo"},
        "engine": {"accelerator": "cpu", "drainTimeoutSeconds": 0},
        "replicas": 0,
        "sloClasses": classes,
    }
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "sloserve.dev/v1alpha1", "kind": KIND, "metadata": meta, "spec": spec}


async def measure(bench: Bench, kubeconfig: Path, reconciles: int, together: int) -> list[Sample]:
    """Run, with a sample every tenth of the way."""
    await bench.kube.connect(kubeconfig)
    try:
        await bench.resync.prime()
        samples: list[Sample] = []
        began, number = time.monotonic(), 0
        print(f"{'reconciles':>10} {'seconds':>8} {'RSS MiB':>8} {'objects':>9} {'series':>7}")
        while bench.done < reconciles:
            await asyncio.gather(*(bench.life(f"r{number + n}") for n in range(together)))
            number += together
            if bench.done >= reconciles * len(samples) / 10:
                samples.append(bench.sample())
                print(samples[-1].line(time.monotonic() - began), flush=True)
        return samples
    finally:
        await bench.kube.close()


def verdict(samples: list[Sample]) -> list[str]:
    """What grew after the warm-up; empty if nothing did."""
    total = samples[-1].reconciles
    warm = next(sample for sample in samples if sample.reconciles >= total / 5)
    last = samples[-1]
    grown = []
    if last.rss_mib > warm.rss_mib + GROWTH_MIB:
        grown.append(f"memory grew from {warm.rss_mib:.1f} to {last.rss_mib:.1f} MiB")
    if last.objects > warm.objects * (1 + GROWTH_OBJECTS):
        grown.append(f"Python objects grew from {warm.objects} to {last.objects}")
    if last.series > warm.series:
        grown.append(f"metric series grew from {warm.series} to {last.series}")
    return grown


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--reconciles", type=int, default=5000)
    parser.add_argument("--resources", type=int, default=10, help="resources alive at one time")
    options = parser.parse_args()
    configure_logging("text", "error")
    cluster = api.get()
    was_there = cluster.exists()
    cluster.up()
    namespace = f"bench-{secrets.token_hex(4)}"
    os.environ.update(cluster.environment())
    try:
        if not cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "name"):
            cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text())
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
        cluster.kubectl("create", "namespace", namespace)
        bench = Bench(namespace)
        grown = verdict(
            asyncio.run(measure(bench, cluster.kubeconfig, options.reconciles, options.resources))
        )
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false", check=False)
        if not was_there:
            cluster.down()
    print("; ".join(grown) or "nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
