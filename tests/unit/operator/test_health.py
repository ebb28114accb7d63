"""Health means progress: dead watches, failing LISTs and stuck work are told from a quiet cluster."""

import asyncio
from typing import Any

import aiohttp
import pytest
from sloserve_operator.cache import Cache
from sloserve_operator.health import Health, serve
from sloserve_operator.kube import KubeError
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry
from sloserve_operator.watches import Watches

from tests.ports import free_port, loopbacks
from tests.unit.operator.objects import manifest

KEY = ("default", "chat")


class Server:
    """LISTs as a test wants them."""

    def __init__(self) -> None:
        self.resources: list[dict[str, Any]] = []
        self.version = 200
        self.known = True
        self.forbidden: set[str | None] = set()
        self.unreadable: dict[str, int] = {}
        self.unreadable_in: dict[tuple[str | None, str], int] = {}
        self.others: dict[str, list[dict[str, Any]]] = {}

    async def served(self, namespace: str | None) -> bool:
        return self.known

    async def list(self, kind: str, namespace: str | None) -> tuple[list[dict[str, Any]], int]:
        if namespace in self.forbidden:
            raise KubeError(f"list {kind}", 403, f"forbidden in {namespace}")
        if status := self.unreadable.get(kind) or self.unreadable_in.get((namespace, kind)):
            raise KubeError(f"list {kind}", status, f"may not list {kind}")
        if kind in self.others:
            return self.others[kind], self.version
        return (self.resources if kind == "SLOServe" else []), self.version


class Process:
    """The parts that health looks at, and a clock."""

    def __init__(self, *namespaces: str) -> None:
        self.now = 0.0
        self.server, self.cache = Server(), Cache()
        self.queue = KeyedQueue(self.clock)
        kube: Any = self.server
        self.telemetry = Telemetry()
        self.resync = Resync(kube, self.cache, self.queue, self.telemetry, [*namespaces], self.clock)
        self.lease: str | None = None
        self.watches = Watches(kube, self.resync, self.inform, self.clock, poll_seconds=0)
        self.health = Health(self.queue, self.resync, self.watches, 60, self.clock, lambda: self.lease)
        queue = self.queue
        self.telemetry.follow(queue.waiting, queue.oldest_seconds, queue.failing, self.health.list_age)

    def clock(self) -> float:
        return self.now

    async def inform(self) -> None:
        """Watches that hear nothing."""
        await asyncio.Event().wait()

    async def begin(self) -> asyncio.Task[None]:
        """The watches' task, when it has come as far as it can."""
        task = asyncio.create_task(self.watches.run())
        for _ in range(50):
            await asyncio.sleep(0)
        return task

    def metric(self, name: str) -> float | None:
        return self.telemetry.registry.get_sample_value(f"sloserve_{name}")


async def test_it_is_ready_once_everything_was_listed_and_looks_at_every_resource() -> None:
    process = Process()
    assert "first LIST" in (process.health.ready() or "")
    assert process.health.alive() is None
    process.server.resources = [manifest()]
    task = await process.begin()
    assert process.health.ready() is None
    assert process.queue.take() == KEY
    task.cancel()


async def test_without_the_crd_it_is_alive_for_hours_and_not_ready() -> None:
    process = Process()
    process.server.known = False
    process.now = 5
    task = await process.begin()
    for _ in range(10):
        process.now += 350
        await asyncio.sleep(0.001)
        assert process.health.alive() is None
    assert "is not installed: install the chart with crds.enabled=true" in (process.health.ready() or "")
    process.server.known = True
    await asyncio.sleep(0.001)
    assert process.health.ready() is None
    task.cancel()


async def test_a_quiet_cluster_is_healthy_for_ever() -> None:
    process = Process()
    process.server.resources = [manifest()]
    await process.resync.prime()
    for _ in range(100):
        process.now += 60
        await process.resync.check()
        while key := process.queue.take():
            process.queue.done(key)
        assert process.health.alive() is None


async def test_a_change_that_no_watch_tells_of_is_a_dead_watch() -> None:
    process = Process()
    process.server.resources = [manifest()]
    await process.resync.prime()
    process.server.resources = [manifest(generation=2)]
    await process.resync.check()
    assert process.health.alive() is None, "the event may be on its way"
    await process.resync.check()
    assert "the watch of SLOServe is silent" in (process.health.alive() or "")


async def test_a_change_that_the_watch_tells_of_late_is_none() -> None:
    process = Process()
    await process.resync.prime()
    process.server.resources = [manifest(generation=2)]
    await process.resync.check()
    process.cache.put("SLOServe", manifest(generation=2))
    process.server.resources = [manifest(generation=3)]
    await process.resync.check()
    process.cache.put("SLOServe", manifest(generation=3))
    await process.resync.check()
    assert process.health.alive() is None


async def test_a_deletion_that_was_missed_is_made_up_for() -> None:
    process = Process()
    process.server.resources = [manifest()]
    await process.resync.prime()
    process.queue.take()
    process.queue.done(KEY)
    process.server.resources = []
    await process.resync.check()
    assert process.cache.resources() == []
    assert process.queue.take() == KEY, "what is remembered of it goes too"


async def test_lists_that_fail_for_long_are_a_fault() -> None:
    process = Process()
    await process.resync.prime()
    process.now = 300
    assert process.health.alive() is None
    process.now = 400
    assert "no complete LIST since 400 s" in (process.health.alive() or "")


async def test_work_that_hangs_is_a_fault() -> None:
    process = Process()
    await process.resync.prime()
    process.queue.add(KEY)
    process.queue.take()
    process.now = 301
    assert process.health.alive() == "work waits since 301 s"


async def test_the_figures_of_a_process_that_is_stuck_grow_by_themselves() -> None:
    process = Process()
    await process.resync.prime()
    process.queue.add(KEY)
    process.now = 7
    assert process.metric("queue_depth") == 1
    assert process.metric("queue_oldest_seconds") == 7
    assert process.metric("last_list_age_seconds") == 7
    assert process.health.figures() == "oldest work: 7.0 s\nlast complete LIST: 7.0 s ago\n"
    process.queue.take()
    process.now = 9
    assert process.metric("queue_depth") == 0
    assert process.metric("queue_oldest_seconds") == 2, "work that hangs counts from when it began"


async def test_what_was_listed_and_never_seen_by_watch_is_a_figure() -> None:
    process = Process()
    await process.resync.prime()
    process.server.resources = [manifest(generation=2)]
    await process.resync.check()
    assert process.metric("watch_lagging_objects") == 1


async def test_a_resource_that_fails_is_counted_until_it_succeeds() -> None:
    process = Process()
    process.queue.add(KEY)
    process.queue.take()
    process.queue.failed(KEY)
    assert process.metric("queue_failing") == 1
    process.now = 2
    process.queue.take()
    process.queue.done(KEY)
    assert process.metric("queue_failing") == 0


async def test_a_lease_that_cannot_be_read_makes_it_unready_and_not_dead() -> None:
    process = Process()
    task = await process.begin()
    process.lease = "the Lease ns/sloserve cannot be read"
    assert process.health.ready() == process.lease
    assert process.health.alive() is None
    task.cancel()


async def test_a_namespace_that_is_gone_is_left_out_and_taken_up_when_it_is_back() -> None:
    process = Process("gone", "default")
    process.server.resources = [manifest()]
    process.server.forbidden = {"gone"}
    await process.resync.prime()
    assert process.resync.present() == ["default"]
    assert not process.resync.changed.is_set(), "these are the ones that will be watched"
    assert "namespace gone: list SLOServe: forbidden" in process.resync.remark()
    assert process.health.alive() is None
    await process.resync.check()
    assert not process.resync.changed.is_set()
    process.server.forbidden = set()
    await process.resync.check()
    assert process.resync.changed.is_set()
    assert process.resync.present() == ["gone", "default"]
    assert process.resync.remark() == ""


async def test_a_namespace_that_goes_takes_its_resources_and_no_fault_with_it() -> None:
    process = Process("default", "other")
    process.server.resources = [manifest()]
    await process.resync.prime()
    process.queue.take()
    process.queue.done(KEY)
    process.server.forbidden = {"default"}
    process.server.resources = []
    looked = 0
    for _ in range(20):
        process.now += 60
        await process.resync.check()
        while key := process.queue.take():
            process.queue.done(key)
            looked += 1
        assert process.health.alive() is None
    assert process.resync.changed.is_set()
    assert process.cache.size() == 0
    assert looked == 1, "what is remembered of it goes too"


async def test_namespaces_that_are_all_forbidden_are_a_failed_list() -> None:
    process = Process("default", "other")
    process.server.forbidden = {"default", "other"}
    with pytest.raises(KubeError, match="forbidden in default"):
        await process.resync.prime()
    assert process.resync.last_success is None


@pytest.mark.parametrize("address", loopbacks())
async def test_probes_and_scrapes_are_answered_by_both_families_of_addresses(address: str) -> None:
    process = Process()
    ports = [free_port(), free_port()]
    host = f"[{address}]" if ":" in address else address
    runners = await serve(process.health, process.telemetry, ports[0], ports[1])
    try:
        async with aiohttp.ClientSession() as client:
            for port, page in ((ports[0], "livez"), (ports[1], "metrics")):
                async with client.get(f"http://{host}:{port}/{page}") as answer:
                    assert answer.status == 200
    finally:
        for runner in runners:
            await runner.cleanup()


async def test_a_kind_that_may_not_be_listed_is_passed_over_named_and_taken_up_again() -> None:
    process = Process()
    process.server.resources = [manifest()]
    process.server.unreadable = {"PersistentVolumeClaim": 403, "PodDisruptionBudget": 404}
    task = await process.begin()
    assert process.health.ready() is None
    assert process.queue.take() == KEY, "its resources are looked at"
    process.queue.done(KEY)
    assert "may not list PersistentVolumeClaim" in process.resync.unseen("default", "PersistentVolumeClaim")
    assert process.resync.unseen("default", "Service") == ""
    assert {"PersistentVolumeClaim", "PodDisruptionBudget"}.isdisjoint(
        k.kind for k in process.resync.watched()
    )
    assert "not seen: list PersistentVolumeClaim" in process.resync.remark()
    process.server.unreadable = {}
    await process.resync.check()
    assert process.resync.unseen("default", "PersistentVolumeClaim") == ""
    assert process.resync.changed.is_set(), "the watches are begun anew, with it"
    assert process.resync.remark() == ""
    task.cancel()


async def test_a_kind_that_is_unseen_in_one_namespace_is_followed_by_lists_in_the_others() -> None:
    process = Process("a", "b")
    process.server.unreadable_in = {("b", "Service"): 403}
    await process.resync.prime()
    service = {"kind": "Service", "metadata": {"name": "chat", "namespace": "a", "resourceVersion": "201"}}
    process.server.others = {"Service": [service]}
    for _ in range(3):
        await process.resync.check()
    assert process.cache.get("Service", ("a", "chat"))
    assert process.health.alive() is None
    assert process.resync.unseen("a", "Service") == ""
    assert process.resync.unseen("b", "Service")
