"""Live settings: written, nudged through the pod's status with the chart's rights, counted by its word."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from sloserve_operator.api.engine import EngineState
from sloserve_operator.apply import Images
from sloserve_operator.cache import Cache
from sloserve_operator.desired.names import MANAGED_BY, MANAGER, NAME_LABEL, NUDGE
from sloserve_operator.kube import Kube
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.contract.space import Operator, Space, manifest, until

pytestmark = pytest.mark.cluster


# No scheduler and so no kubelet touches it: its status is what the test says.
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "chat-pod",
        "labels": {NAME_LABEL: "chat", MANAGED_BY: MANAGER, "pod-template-hash": "hand"},
        "annotations": {"mine": "1"},
    },
    "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none:1"}]},
}
# Without our labels, so that the Deployment does not take it and scale it down.
REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "chat-hand", "labels": {"by": "hand"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"pod-template-hash": "hand"}},
        "template": {"metadata": {"labels": POD["metadata"]["labels"]}, "spec": POD["spec"]},
    },
}
RUNNING = {
    "phase": "Running",
    "podIP": "192.0.2.1",
    "podIPs": [{"ip": "192.0.2.1"}],
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "main",
            "image": "none:1",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}


def run_pod(space: Space, **more: Any) -> None:
    """The pod of a ReplicaSet, running as far as its status says."""
    space.apply(POD)
    status = json.dumps({"status": {**RUNNING, **more}})
    space.run("patch", "pod", "chat-pod", "--subresource=status", "--type=merge", "-p", status)
    space.apply(REPLICA_SET)
    until(lambda: space.must("pod", "chat-pod")["metadata"].get("ownerReferences"), "the pod is taken")


class Engine:
    """What the engine of the only pod says; a test changes it."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}

    def applied(self, revision: str, generation: int, **more: Any) -> None:
        self.says = {"applied": {"revision": revision, "generation": generation}, **more}

    async def read(self, address: str) -> EngineState | str:
        return EngineState.model_validate(self.says)


@dataclass
class Live:
    """An operator in this process, a pod that no node runs, an engine that says what the test wants."""

    space: Space
    engine: Engine
    reconciler: Reconciler
    resync: Resync

    async def look(self) -> float | None:
        """One pass with all that the API server knows."""
        await self.resync.prime()
        return await self.reconciler.reconcile((self.space.name, "chat"))

    def pod(self) -> dict[str, Any]:
        return self.space.must("pod", "chat-pod")

    def nudge(self) -> str:
        return str(self.pod()["metadata"]["annotations"].get(NUDGE, ""))

    def written(self) -> tuple[str, int]:
        content = json.loads(self.space.must("configmap", "chat-config")["data"]["slidingserve.json"])
        return content["revision"], content["generation"]


@pytest.fixture
async def live(space: Space) -> AsyncIterator[Live]:
    run_pod(space)
    space.apply(manifest())
    kube, cache, telemetry, engine = Kube(10), Cache(), Telemetry(), Engine()
    await kube.connect(Operator(space).grant())
    reconciler = Reconciler(kube, cache, engine, telemetry, Images("none:1", "none:1"), poll_seconds=15)
    yield Live(space, engine, reconciler, Resync(kube, cache, KeyedQueue(), telemetry, [space.name]))
    await kube.close()


async def test_a_pod_on_older_settings_is_nudged_and_counts_when_it_says_so(live: Live) -> None:
    await live.look()
    first = live.written()
    live.engine.applied(*first)
    await live.look()
    assert live.space.condition("chat", "ConfigApplied")["status"] == "True"
    assert live.nudge() == "", "it had read them at its start"
    before = live.pod()["metadata"]["uid"]

    generation = live.space.patch("chat", {"scheduler": {"alpha": 0.5}})
    assert await live.look() == 0.25
    revision, at = live.written()
    assert (at, revision != first[0]) == (generation, True)
    assert live.nudge() == f"{revision}.{generation}"
    waiting = live.space.condition("chat", "ConfigApplied")
    assert (waiting["status"], waiting["reason"]) == ("False", "WaitingForPods")
    assert "chat-pod has generation 1" in waiting["message"]

    live.engine.applied(revision, at, alpha=0.5)
    assert await live.look() == 15
    assert live.space.condition("chat", "ConfigApplied")["message"] == "generation 2 is in force in 1 pod"
    (shown,) = live.space.must("sloserve", "chat")["status"]["pods"]
    assert (shown["appliedGeneration"], shown["alpha"]) == (2, 0.5)
    assert live.pod()["metadata"]["uid"] == before


async def test_scaling_and_a_cold_field_nudge_nobody(live: Live) -> None:
    await live.look()
    live.engine.applied(*live.written())
    await live.look()
    before = live.written()
    live.space.patch("chat", {"engine": {"maxModelLength": 64}})
    await live.look()
    live.space.run("scale", "sloserve", "chat", "--replicas=1")
    await live.look()
    assert live.written() == before
    assert live.nudge() == ""
    live.space.run("scale", "sloserve", "chat", "--replicas=0")


async def test_refused_settings_are_named_and_the_last_good_ones_stay(live: Live) -> None:
    await live.look()
    first = live.written()
    live.engine.applied(*first)
    await live.look()
    live.space.patch("chat", {"scheduler": {"chunk": {"maxTokens": 99999}}})
    await live.look()
    revision, generation = live.written()
    why = {"revision": revision, "generation": generation, "message": "scheduler.chunk.maxTokens: too much"}
    live.engine.applied(*first, rejected=why)
    assert await live.look() == 15, "it is not asked again and again"
    condition = live.space.condition("chat", "ConfigApplied")
    assert (condition["status"], condition["reason"]) == ("False", "ConfigRejected")
    assert (
        "refuses generation 2: scheduler.chunk.maxTokens: too much; generation 1 stays"
        in condition["message"]
    )
    events = until(
        lambda: [
            event
            for event in json.loads(live.space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
            if event["reason"] == "ConfigRejected"
        ],
        "an event",
    )
    assert [event["type"] for event in events] == ["Warning"]
