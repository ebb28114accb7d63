"""Many SLOServes on a real API server: time to converge, calls, memory, idle writes, a restart.

    python -m benchmarks.scale [100 300 600]

The operator is a process of its own with the chart's rights, in the settings of a release. Engines are none:
see `benchmarks.stand_in`. It makes a namespace of its own on the cluster that CLUSTER names (the calls are
read from the audit log of CLUSTER=local), and takes it away.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from sloserve_operator.api import CRD, KIND
from sloserve_operator.api.crd import text
from sloserve_operator.kube import Kube, KubeError
from sloserve_operator.logs import configure_logging

from benchmarks.measured import Numbers, answered, calls, process, table, words
from benchmarks.stand_in import Engines, manifest, play_kubelet
from tests.cluster import api
from tests.cluster.api import Cluster
from tests.contract.space import WRITES, Operator, Space
from tests.ports import free_port

TOGETHER = 10
QUIET_SECONDS = 60.0
LONGEST = 1800.0
REPAIRS = 5
REST_SECONDS = 15.0


class Bench:
    """A namespace with an operator and `count` resources."""

    def __init__(self, space: Space, kube: Kube, engines: Engines, count: int) -> None:
        self.space, self.kube, self.engines, self.count = space, kube, engines, count
        self.numbers = Numbers(count)
        self.port = free_port()
        self.operator = Operator(space, extra={"METRICS_PORT": str(self.port), "LOG_LEVEL": "info"})

    async def measure(self) -> None:
        """All phases in turn."""
        await asyncio.to_thread(self.operator.start)
        mark, began = self.operator.mark(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            kubelet = group.create_task(play_kubelet(self.kube, self.space.name))
            await self._make()
            self.numbers.add("all made by kubectl's side, s", f"{time.monotonic() - began:.1f}")
            await self._until(self._ready)
            self.numbers.add("all Ready, s", f"{time.monotonic() - began:.1f}")
            await self._children(mark)
            await self._quiet()
            await self._busy()
            await self._silent()
            await self._restart_unchanged()
            await self._restart_changed()
            kubelet.cancel()
        await asyncio.to_thread(self.operator.stop)

    async def _make(self) -> None:
        slots = asyncio.Semaphore(TOGETHER)

        async def one(number: int) -> None:
            async with slots:
                await self.kube.create(manifest(self.space.name, f"r{number}"))

        await asyncio.gather(*(one(number) for number in range(self.count)))

    async def _resources(self) -> list[dict[str, Any]]:
        return (await self.kube.list(KIND, self.space.name))[0]

    async def _ready(self) -> bool:
        found = await self._resources()
        if found and not self.engines.revision:
            self.engines.revision = (found[0].get("status") or {}).get("config", {}).get("revision", "")
            await self.engines.set()
        return sum(_settled(obj) for obj in found) == self.count

    async def _has_service(self, name: str) -> bool:
        return await self.kube.get("Service", self.space.name, name) is not None

    async def _until(self, look: Callable[[], Awaitable[bool]], pause: float = 0.5) -> None:
        deadline = time.monotonic() + LONGEST
        while not await look():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {LONGEST:g} s; see {self.operator.log}")
            await asyncio.sleep(pause)

    async def _children(self, mark: int) -> None:
        found = list(calls(self.operator, mark))
        made = [e for e in found if e["verb"] == "create" and e["objectRef"]["resource"] == "deployments"]
        first, last = (pick(answered(event) for event in made) for pick in (min, max))
        self.numbers.add("first to last Deployment made, s", f"{last - first:.1f}")
        self._count("calls to converge", found)
        rss, peak, cpu = process(self.operator)
        self.numbers.add("memory, MiB (highest)", f"{rss:.0f} ({peak:.0f})")
        self.numbers.add("CPU of the operator to converge, s", f"{cpu:.1f}")

    async def _quiet(self) -> None:
        await asyncio.sleep(REST_SECONDS)  # the Deployments' controller and the last nudges come to rest
        mark, before, asked = self.operator.mark(), process(self.operator)[2], await self.engines.set()
        await asyncio.sleep(QUIET_SECONDS)
        found = list(calls(self.operator, mark))
        writes = [event for event in found if event["verb"] in WRITES]
        self.numbers.add(f"writes in {QUIET_SECONDS:.0f} idle s", str(len(writes)))
        self.numbers.add(f"reads in {QUIET_SECONDS:.0f} idle s", words(found))
        self.numbers.add(
            "idle CPU, % of a core", f"{100 * (process(self.operator)[2] - before) / QUIET_SECONDS:.1f}"
        )
        self.numbers.add(
            "engines asked a second", f"{(await self.engines.set() - asked) / QUIET_SECONDS:.1f}"
        )

    async def _busy(self) -> None:
        await self.engines.set(busy=True)
        mark, before = self.operator.mark(), process(self.operator)[2]
        await asyncio.sleep(QUIET_SECONDS)
        await self.engines.set()
        writes = [event for event in calls(self.operator, mark) if event["verb"] in WRITES]
        self.numbers.add("status writes a second, all engines in use", f"{len(writes) / QUIET_SECONDS:.1f}")
        self.numbers.add(
            "CPU then, % of a core", f"{100 * (process(self.operator)[2] - before) / QUIET_SECONDS:.1f}"
        )
        await asyncio.sleep(REST_SECONDS)

    async def _silent(self) -> None:
        """How long drift waits for its repair while every look waits for an engine that does not answer."""
        await self.engines.set(silent=True)
        await asyncio.sleep(QUIET_SECONDS / 2)
        took = []
        for number in range(REPAIRS):
            name = f"r{number}"
            service = await self.kube.get("Service", self.space.name, name)
            assert service is not None  # noqa: S101
            began = time.monotonic()
            await self.kube.delete(service)
            await self._until(lambda name=name: self._has_service(name), pause=0.1)  # type: ignore[misc]
            took.append(time.monotonic() - began)
        await self.engines.set()
        self.numbers.add("no engine answers: repair, s (longest of 5)", f"{max(took):.1f}")
        await self._until(self._ready)
        await asyncio.sleep(REST_SECONDS)

    async def _restart_unchanged(self) -> None:
        await asyncio.to_thread(self.operator.stop)
        mark, began = self.operator.mark(), time.monotonic()
        await asyncio.to_thread(self.operator.start)
        self.numbers.add("restart: watching after, s", f"{time.monotonic() - began:.1f}")
        await self._until(self._all_looked_at)
        self.numbers.add("restart: all looked at after, s", f"{time.monotonic() - began:.1f}")
        self._count("restart: calls", list(calls(self.operator, mark)))

    async def _all_looked_at(self) -> bool:
        def read() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())

        found = re.search(
            r'^sloserve_reconcile_total\{result="ok"\} (\S+)', await asyncio.to_thread(read), re.M
        )
        return found is not None and float(found.group(1)) >= self.count

    async def _restart_changed(self) -> None:
        """While it is away every tenth resource gets another scale, and every tenth loses its Service."""
        await asyncio.to_thread(self.operator.stop)
        scaled = [f"r{number}" for number in range(0, self.count, 10)]
        robbed = [f"r{number}" for number in range(5, self.count, 10)]
        for obj in await self._resources():
            if obj["metadata"]["name"] in scaled:
                await self.kube.replace({**obj, "spec": {**obj["spec"], "replicas": 2}})
        for name in robbed:
            if service := await self.kube.get("Service", self.space.name, name):
                await self.kube.delete(service)
        began = time.monotonic()
        await asyncio.to_thread(self.operator.start)

        async def done() -> bool:
            services, _ = await self.kube.list("Service", self.space.name)
            return len(services) == self.count and await self._ready()

        await self._until(done)
        what = "restart after a change of every fifth: all Ready, s"
        self.numbers.add(what, f"{time.monotonic() - began:.1f}")

    def _count(self, what: str, found: list[dict[str, Any]]) -> None:
        self.numbers.add(what, words(found))
        writes = sum(event["verb"] in WRITES for event in found)
        self.numbers.add(f"{what}, writes a resource", f"{writes / self.count:.1f}")


def _settled(obj: dict[str, Any]) -> bool:
    status = obj.get("status") or {}
    true = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
    fresh = status.get("observedGeneration") == obj["metadata"]["generation"]
    return fresh and {"Ready", "ConfigApplied"} <= true and status["readyReplicas"] == obj["spec"]["replicas"]


@asynccontextmanager
async def parts(cluster: Cluster) -> AsyncIterator[tuple[Kube, Engines]]:
    """A client with the administrator's rights, and the engines' server."""
    kube, engines = Kube(60), Engines()
    await kube.connect(cluster.kubeconfig)
    await engines.start()
    try:
        yield kube, engines
    finally:
        await engines.stop()
        await kube.close()


async def one_size(cluster: Cluster, count: int) -> Numbers:
    """Measure one size in a namespace of its own."""
    name = f"scale-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    with tempfile.TemporaryDirectory() as directory:
        space = Space(cluster, name, Path(directory))
        async with parts(cluster) as (kube, engines):
            bench = Bench(space, kube, engines, count)
            try:
                await bench.measure()
            finally:
                if bench.operator.process:
                    bench.operator.stop()
                with suppress(KubeError):
                    await asyncio.to_thread(_remove, cluster, name)
    return bench.numbers


def _remove(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("delete", "namespace", namespace, "--timeout=900s", timeout=910)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("sizes", type=int, nargs="*", default=[100, 300, 600])
    sizes = parser.parse_args().sizes
    configure_logging("text", "error")
    cluster = api.get()
    was_there = cluster.exists()
    cluster.up()
    os.environ.update(cluster.environment())
    had_crd = cluster.kubectl("get", "crd", CRD, "--ignore-not-found", "-o", "name")
    try:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text())
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
        found = [asyncio.run(one_size(cluster, size)) for size in sizes]
    finally:
        if not was_there:
            cluster.down()
        elif not had_crd:
            cluster.kubectl("delete", "crd", CRD, "--timeout=60s")
    print(table(found))
    idle = next(value for what, value in found[-1].rows.items() if what.startswith("writes in"))
    return int(idle != "0")


if __name__ == "__main__":
    sys.exit(main())
