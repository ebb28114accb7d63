"""Live attainment in the status of a real API server: how often it is written, by the server's audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from sloserve_operator.apply import Images
from sloserve_operator.cache import Cache
from sloserve_operator.kube import Kube
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.contract.space import Operator, Space, manifest, until
from tests.contract.test_live import Engine, run_pod

pytestmark = pytest.mark.cluster

POLL_SECONDS = 15.0
CLASSES = [
    {"name": "chat", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40, "objectivePercent": 99, "weight": 3},
    {"name": "batch", "ttft": {"slowdown": 50}, "tbtMilliseconds": 400, "objectivePercent": 90},
]


@dataclass
class Traffic:
    """An operator in this process whose clock the test moves, and an engine that counts requests."""

    space: Space
    operator: Operator
    engine: Engine
    reconciler: Reconciler
    resync: Resync
    now: float = 0.0
    label: tuple[str, int] = ("", 0)

    async def look(self, **counts: tuple[int, int]) -> None:
        """A poll later: (good, missed) requests by class since the engine started."""
        self.now += POLL_SECONDS
        said = {name: {"good": good, "violations": {"request": bad}} for name, (good, bad) in counts.items()}
        quality = {"samples": sum(good for good, _ in counts.values()), "maeShare": 0.04, "underShare": 0.5}
        self.engine.applied(*self.label, classes=said, predictor={"calibrated": True, "overall": quality})
        await self.reconciler.reconcile((self.space.name, "chat"))

    def status(self) -> dict[str, Any]:
        return dict(self.space.must("sloserve", "chat")["status"])

    def writes(self, mark: int) -> list[str]:
        """Writes of the operator; the audit log has each before its answer comes."""
        return [w for w in self.operator.writes(mark) if not w.startswith("create serviceaccounts")]


@pytest.fixture
async def traffic(space: Space) -> AsyncIterator[Traffic]:

    run_pod(space)
    space.apply(manifest(sloClasses=CLASSES))
    kube, cache, telemetry, engine = Kube(10), Cache(), Telemetry(), Engine()
    operator = Operator(space)
    await kube.connect(operator.grant())
    images = Images("none:1", "none:1")
    made = Traffic(space, operator, engine, None, None)  # type: ignore[arg-type]  # filled in below
    made.reconciler = Reconciler(
        kube, cache, engine, telemetry, images, poll_seconds=POLL_SECONDS, clock=lambda: made.now
    )
    made.resync = Resync(kube, cache, KeyedQueue(), telemetry, [space.name])
    for _ in range(2):
        await made.resync.prime()
        await made.reconciler.reconcile((space.name, "chat"))
    content = json.loads(space.must("configmap", "chat-config")["data"]["slidingserve.json"])
    made.label = content["revision"], content["generation"]
    yield made
    await kube.close()


async def test_under_traffic_the_status_is_written_once_a_minute_and_at_rest_never(traffic: Traffic) -> None:
    await traffic.look(chat=(100, 0), batch=(40, 0))
    mark = traffic.operator.mark()
    for step in range(1, 41):  # ten minutes of polls
        await traffic.look(chat=(100 + 10 * step, 0), batch=(40 + step, 0))
    written = [w for w in traffic.writes(mark) if "sloserves/status" in w]
    assert 9 <= len(written) <= 11, written
    for _ in range(5):
        await traffic.look(chat=(500, 0), batch=(80, 0))
    mark = traffic.operator.mark()
    for _ in range(50):
        await traffic.look(chat=(500, 0), batch=(80, 0))
    left = [w for w in traffic.writes(mark) if "sloserves/status" in w]
    assert len(left) <= 10, "the window empties, and its figures fall back on those since the start"
    mark = traffic.operator.mark()
    for _ in range(50):
        await traffic.look(chat=(500, 0), batch=(80, 0))
    assert traffic.writes(mark) == []


async def test_a_class_that_crosses_its_objective_is_told_at_once(traffic: Traffic) -> None:
    await traffic.look(chat=(1000, 1), batch=(100, 1))
    await traffic.look(chat=(1001, 1), batch=(101, 1))
    assert traffic.space.condition("chat", "SLOMet")["status"] == "True"
    await traffic.look(chat=(1001, 40), batch=(101, 1))
    condition = traffic.space.condition("chat", "SLOMet")
    assert (condition["status"], condition["reason"]) == ("False", "ObjectiveMissed")
    assert "class chat kept its promise for 96.1 % of 1041 requests" in condition["message"]
    assert "its objective is 99 %" in condition["message"]
    await traffic.look(chat=(1001, 41), batch=(101, 60))
    met = {c["name"]: c["met"] for c in traffic.status()["sloClasses"]}
    assert met == {"chat": "False", "batch": "False"}, "the second class too, though the condition stays"
    reasons = until(lambda: [e for e in _events(traffic.space) if e == "ObjectiveMissed"], "an event")
    assert reasons == ["ObjectiveMissed"]


async def test_the_status_has_overall_attainment_by_weight_and_the_predictors_accuracy(
    traffic: Traffic,
) -> None:
    await traffic.look(chat=(90, 10), batch=(50, 50))
    status = traffic.status()
    assert status["overallAttainment"] == "80.0 %", "(3 x 90 + 50) / 4"
    assert status["attainment"] == "chat 90.0 % (n=100), batch 50.0 % (n=100)"
    assert status["predictor"] == "4.0 % off, 50.0 % under"
    assert [pod["predictor"] for pod in status["pods"]] == ["4.0 % off, 50.0 % under (n=140)"]
    head, row = traffic.space.run("get", "slos").splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "REPLICAS", "SLO", "ATTAINMENT", "MODEL", "AGE"]
    assert row.split()[1:7] == ["False", "ScaledToZero", "0/0", "False", "80.0", "%"]


async def test_a_handful_of_requests_is_no_verdict(traffic: Traffic) -> None:
    await traffic.look(chat=(3, 2), batch=(0, 0))
    condition = traffic.space.condition("chat", "SLOMet")
    assert (condition["status"], condition["reason"]) == ("Unknown", "TooFewRequests")
    assert "the most is 5" in condition["message"]


def _events(space: Space) -> list[str]:

    items = json.loads(space.run("get", "events.events.k8s.io", "-o", "json"))["items"]
    return [event["reason"] for event in items if event["regarding"]["kind"] == "SLOServe"]
