"""5,000 reconciles of the operator against a real API server: time, writes, memory, objects, metric series.

    python -m benchmarks.operator [--reconciles 5000] [--resources 10]

Resources are made, changed and deleted in turn, and each gets looks that change nothing. Over the second half
memory (its slope), open files, tasks, live Python objects, what the caches hold and metric series must not
grow: last line and exit status say so.
It makes a namespace of its own on the cluster that CLUSTER names, and takes it away.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import secrets
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sloserve_operator.api import CRD, KIND
from sloserve_operator.api.crd import text
from sloserve_operator.apply import Images
from sloserve_operator.cache import Cache
from sloserve_operator.kinds import CHILDREN
from sloserve_operator.kube import Kube
from sloserve_operator.logs import configure_logging
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.cluster import api

LOOKS = 10  # at one life of one resource: made, changed, quiet ones, deleted
SAMPLES = 20
SLOPE_MIB = 1.0  # of memory, for each thousand reconciles
GROWTH_OBJECTS = 0.01


@dataclass(frozen=True)
class Sample:
    """What could grow, at one time."""

    reconciles: int
    seconds: float
    cpu: float
    rss_mib: float
    files: int
    tasks: int
    objects: int
    cached: int
    series: int

    def line(self) -> str:
        """One row of the output."""
        return (
            f"{self.reconciles:>10} {self.seconds:>8.1f} {self.cpu:>7.1f} {self.rss_mib:>8.1f} "
            f"{self.files:>5} {self.tasks:>5} {self.objects:>8} {self.cached:>6} {self.series:>6}"
        )


HEAD = "reconciles  seconds   cpu s  RSS MiB files tasks  objects cached series"


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
        self.done, self.began = 0, time.monotonic()

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
        return Sample(
            reconciles=self.done,
            seconds=time.monotonic() - self.began,
            cpu=time.process_time(),
            rss_mib=rss,
            files=len(list(Path("/proc/self/fd").iterdir())),
            tasks=len(asyncio.all_tasks()),
            objects=len(gc.get_objects()),
            cached=self.cache.size(),
            series=series,
        )


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
    """Run, with a sample every twentieth of the way."""
    await bench.kube.connect(kubeconfig)
    try:
        await bench.resync.prime()
        samples: list[Sample] = []
        number, bench.began = 0, time.monotonic()
        print(HEAD)
        while bench.done < reconciles:
            await asyncio.gather(*(bench.life(f"r{number + n}") for n in range(together)))
            number += together
            if bench.done >= reconciles * len(samples) / SAMPLES:
                samples.append(bench.sample())
                print(samples[-1].line(), flush=True)
        return samples
    finally:
        await bench.kube.close()


def slope(samples: list[Sample]) -> float:
    """MiB of memory for each thousand reconciles, by least squares."""
    x = [sample.reconciles / 1000 for sample in samples]
    return statistics.linear_regression(x, [sample.rss_mib for sample in samples]).slope


def verdict(samples: list[Sample]) -> list[str]:
    """What grew over the second half; empty if nothing did."""
    half = [sample for sample in samples if sample.reconciles >= samples[-1].reconciles / 2]
    first, last = half[0], half[-1]
    grown = []
    if (rate := slope(half)) > SLOPE_MIB:
        grown.append(f"memory grows by {rate:.2f} MiB for each thousand reconciles")
    if last.objects > first.objects * (1 + GROWTH_OBJECTS):
        grown.append(f"Python objects grew from {first.objects} to {last.objects}")
    for name in ("files", "tasks", "cached", "series"):
        before, after = getattr(first, name), getattr(last, name)
        if after > before:
            grown.append(f"{name} grew from {before} to {after}")
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
        samples = asyncio.run(measure(bench, cluster.kubeconfig, options.reconciles, options.resources))
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false", check=False)
        if not was_there:
            cluster.down()
    grown, half = verdict(samples), samples[len(samples) // 2 :]
    print(f"memory: {slope(half):+.2f} MiB for each thousand reconciles of the second half")
    print("; ".join(grown) or "nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
