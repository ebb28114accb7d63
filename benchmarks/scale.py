"""Many SLOServes on a real API server: time to converge, calls, memory, idle writes, a restart.

    python -m benchmarks.scale [100 300 600]

The operator is a process of its own with the chart's rights, in the settings of a release. Engines are none:
see `benchmarks.stand_in`. It makes a namespace of its own on the cluster that CLUSTER names (the calls are
read from the audit log of CLUSTER=local), and takes it away.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sloserve_operator.api import GROUP, KIND, PLURAL
from sloserve_operator.api.crd import text
from sloserve_operator.kube import Kube, KubeError
from sloserve_operator.telemetry import configure_logging

from benchmarks.stand_in import Engines, manifest, play_kubelet
from tests.cluster import api
from tests.cluster.api import Cluster
from tests.contract.space import WRITES, Operator, Space, free_port

CRD = f"{PLURAL}.{GROUP}"
TOGETHER = 10
QUIET_SECONDS = 60.0
LONGEST = 1800.0
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass
class Numbers:
    """What one size gave."""

    resources: int
    rows: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, value: str) -> None:
        """One line of the output, at once."""
        self.rows[what] = value
        print(f"{self.resources:>5}  {what:<44} {value}", flush=True)


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
        return sum(_settled(obj) for obj in found) == self.count

    async def _until(self, look: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + LONGEST
        while not await look():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {LONGEST:g} s; see {self.operator.log}")
            await asyncio.sleep(0.5)

    async def _children(self, mark: int) -> None:
        calls = list(self._calls(mark))
        made = [e for e in calls if e["verb"] == "create" and e["objectRef"]["resource"] == "deployments"]
        first, last = (pick(_time(event) for event in made) for pick in (min, max))
        self.numbers.add("first to last Deployment made, s", f"{last - first:.1f}")
        self._count("calls to converge", calls)
        rss, peak, cpu = self._process()
        self.numbers.add("memory, MiB (highest)", f"{rss:.0f} ({peak:.0f})")
        self.numbers.add("CPU of the operator to converge, s", f"{cpu:.1f}")

    async def _quiet(self) -> None:
        await asyncio.sleep(20)  # the Deployments' controller and the last nudges come to rest
        mark, before, asked = self.operator.mark(), self._process()[2], self.engines.asked
        await asyncio.sleep(QUIET_SECONDS)
        calls = list(self._calls(mark))
        writes = [event for event in calls if event["verb"] in WRITES]
        self.numbers.add(f"writes in {QUIET_SECONDS:.0f} idle s", str(len(writes)))
        self.numbers.add(f"reads in {QUIET_SECONDS:.0f} idle s", _words(calls))
        self.numbers.add(
            "idle CPU, % of a core", f"{100 * (self._process()[2] - before) / QUIET_SECONDS:.1f}"
        )
        self.numbers.add("engines asked a second", f"{(self.engines.asked - asked) / QUIET_SECONDS:.1f}")

    async def _busy(self) -> None:
        self.engines.busy = True
        mark, before = self.operator.mark(), self._process()[2]
        await asyncio.sleep(QUIET_SECONDS)
        self.engines.busy = False
        writes = [event for event in self._calls(mark) if event["verb"] in WRITES]
        self.numbers.add("status writes a second, all engines in use", f"{len(writes) / QUIET_SECONDS:.1f}")
        self.numbers.add(
            "CPU then, % of a core", f"{100 * (self._process()[2] - before) / QUIET_SECONDS:.1f}"
        )
        await asyncio.sleep(20)

    async def _restart_unchanged(self) -> None:
        await asyncio.to_thread(self.operator.stop)
        mark, began = self.operator.mark(), time.monotonic()
        await asyncio.to_thread(self.operator.start)
        self.numbers.add("restart: watching after, s", f"{time.monotonic() - began:.1f}")
        await self._until(self._all_looked_at)
        self.numbers.add("restart: all looked at after, s", f"{time.monotonic() - began:.1f}")
        self._count("restart: calls", list(self._calls(mark)))

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
        what = f"restart after {len(scaled) + len(robbed)} changes: all Ready, s"
        self.numbers.add(what, f"{time.monotonic() - began:.1f}")

    def _count(self, what: str, calls: list[dict[str, Any]]) -> None:
        self.numbers.add(what, _words(calls))
        writes = sum(event["verb"] in WRITES for event in calls)
        self.numbers.add(f"{what}, writes a resource", f"{writes / self.count:.1f}")

    def _calls(self, since: int) -> Iterable[dict[str, Any]]:
        """Every call of the operator after an offset of the audit log, once."""
        path = self.space.cluster.audit_log()
        assert path is not None, "the audit log is needed: use CLUSTER=local"  # noqa: S101
        with path.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"}\n"):
                    return
                event = json.loads(line)
                who = event["user"].get("extra", {}).get(CREDENTIAL, [])
                if event["stage"] == "ResponseComplete" and not self.operator.credentials.isdisjoint(who):
                    yield event

    def _process(self) -> tuple[float, float, float]:
        """MiB resident now and at most, and CPU seconds."""
        assert self.operator.process is not None  # noqa: S101
        proc = Path(f"/proc/{self.operator.process.pid}")
        memory = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", (proc / "status").read_text(), re.M))
        ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return int(memory["VmRSS"]) / 1024, int(memory["VmHWM"]) / 1024, cpu


def _settled(obj: dict[str, Any]) -> bool:
    status = obj.get("status") or {}
    true = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
    fresh = status.get("observedGeneration") == obj["metadata"]["generation"]
    return fresh and {"Ready", "ConfigApplied"} <= true and status["readyReplicas"] == obj["spec"]["replicas"]


def _time(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["stageTimestamp"]).timestamp()


def _words(calls: list[dict[str, Any]]) -> str:
    """`verb resource count` of all calls, most first."""

    def name(event: dict[str, Any]) -> str:
        target = event.get("objectRef", {})
        what = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
        return f"{event['verb']} {what}" if what else "discovery"

    return ", ".join(f"{what} {count}" for what, count in Counter(map(name, calls)).most_common()) or "none"


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


def table(found: list[Numbers]) -> str:
    """All sizes side by side, in Markdown."""
    lines = [
        "",
        f"| resources | {' | '.join(str(n.resources) for n in found)} |",
        "|---|" + "---|" * len(found),
    ]
    for what in found[0].rows:
        lines.append(f"| {what} | {' | '.join(n.rows.get(what, '') for n in found)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
