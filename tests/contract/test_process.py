"""The process: exit status, a kill between any two writes, a missing CRD."""

from __future__ import annotations

import json
import signal
import socket
import time
from functools import partial
from typing import Any

import pytest
from sloserve_operator.apply import Images
from sloserve_operator.cache import Cache
from sloserve_operator.kube import Kube
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.contract.space import Operator, Space, free_port, manifest, until

pytestmark = pytest.mark.cluster


class KilledError(BaseException):
    """The process is no more."""


class Mortal(Kube):
    """Dies in the middle of its n-th write: `after` says whether the server got it."""

    def __init__(self, writes: int, after: bool) -> None:
        super().__init__(timeout=30)
        self.left, self.after, self.calls = writes, after, 0

    async def _call(self, action: str, verb: str, kind: str, /, **params: Any) -> dict[str, Any]:
        if verb == "get":
            return await super()._call(action, verb, kind, **params)
        self.calls += 1
        dies = self.calls == self.left
        if dies and not self.after:
            raise KilledError
        try:
            return await super()._call(action, verb, kind, **params)
        finally:
            if dies:  # whatever the server answered, nobody hears it
                raise KilledError


class Nobody:
    """No engine runs."""

    async def read(self, address: str) -> str:
        return "is not there"


async def life(space: Space, name: str, writes: int = 0, after: bool = False) -> tuple[int, bool]:
    """One life of the operator, nothing remembered: how many writes it made, and whether it was killed."""
    kube, cache, telemetry = Mortal(writes, after), Cache(), Telemetry()
    await kube.connect(space.cluster.kubeconfig)
    try:
        resync = Resync(kube, cache, KeyedQueue(), telemetry, [space.name])
        await resync.prime()
        images = Images("localhost/none/engine:1", "localhost/none/engine-cpu:1")
        reconciler = Reconciler(kube, cache, Nobody(), telemetry, images, poll_seconds=60)
        await reconciler.reconcile((space.name, name))
    except KilledError:
        return kube.calls, True
    finally:
        await kube.close()
    return kube.calls, False


async def managers(kube: Kube, space: Space, name: str) -> list[tuple[str, str]]:
    """(child, operation) of every entry of ours in the children's managedFields."""
    found = []
    for kind, child in (
        ("ServiceAccount", name),
        ("ConfigMap", f"{name}-config"),
        ("Service", name),
        ("Deployment", name),
    ):
        obj = await kube.get(kind, space.name, child)
        assert obj is not None, f"{kind} {child} is not there"
        entries = obj["metadata"]["managedFields"]
        found += [(kind, e["operation"]) for e in entries if e["manager"] == "sloserve-operator"]
    return found


KILLS = [(writes, after) for writes in range(1, 30) for after in (False, True)]


async def test_killed_between_any_two_writes_it_converges(space: Space) -> None:
    kube = Kube(timeout=30)
    await kube.connect(space.cluster.kubeconfig)
    for writes, after in KILLS:
        name = f"chat-{writes}-{str(after).lower()}"
        await make(kube, space, manifest(name))
        _, killed = await life(space, name, writes, after)
        await life(space, name)
        again, _ = await life(space, name)
        assert len(await managers(kube, space, name)) == 4, "each child is there and has one writer of ours"
        assert again <= 1, "one status at most, as the Deployment's controller goes on"
        if not killed:
            break
    await kube.close()
    assert 5 < writes < 29, "each child is one write, then comes the status"


async def test_killed_between_any_two_writes_of_the_first_change_it_converges(space: Space) -> None:
    """What a POST made is turned into an apply before a field can be left out."""
    kube = Kube(timeout=30)
    await kube.connect(space.cluster.kubeconfig)
    for writes, after in KILLS:
        name = f"chat-{writes}-{str(after).lower()}"
        obj = await make(kube, space, manifest(name, service={"labels": {"team": "red"}}))
        await life(space, name)
        now = await kube.get("SLOServe", space.name, name) or obj
        changed = manifest(name, engine={"accelerator": "cpu", "maxModelLength": 64})
        await kube.replace({**now, "spec": changed["spec"]})
        _, killed = await life(space, name, writes, after)
        await life(space, name)
        again, _ = await life(space, name)
        assert again <= 1, "one status at most, as the Deployment's controller goes on"
        service = await kube.get("Service", space.name, name)
        assert service is not None
        assert "team" not in service["metadata"]["labels"], "no longer asked for"
        found = await managers(kube, space, name)
        assert found.count(("Service", "Apply")) == found.count(("Deployment", "Apply")) == 1
        assert len(found) == 4
        if not killed:
            break
    await kube.close()
    assert 4 < writes < 29, "Service and Deployment are two writes each, then comes the status"


async def make(kube: Kube, space: Space, obj: dict[str, Any]) -> dict[str, Any]:
    """A SLOServe, made with all rights."""
    obj["metadata"]["namespace"] = space.name
    return await kube.create(obj)


def test_a_term_signal_ends_it_within_seconds_with_zero_and_a_kill_does_not(space: Space) -> None:
    port = free_port()
    operator = Operator(space, extra={"HEALTH_PORT": str(port)})
    operator.start()
    try:
        space.apply(manifest())
        space.reason("chat", "ScaledToZero")
        with socket.create_connection(("127.0.0.1", port)) as probe:  # kept alive, as the kubelet's are not
            probe.sendall(b"GET /livez HTTP/1.1\r\nHost: operator\r\n\r\n")
            assert b"200 OK" in probe.recv(4096)
            began = time.monotonic()
            assert operator.stop(signal.SIGTERM) == 0
            # A third of a second where the machine is idle. kopf's own end took more than five.
            assert time.monotonic() - began < 5
        stopping, ended = operator.said("stopping"), operator.said("ended")
        assert stopping
        assert ended
        operator.start()
        assert operator.stop(signal.SIGKILL) == -signal.SIGKILL
    finally:
        operator.kill()


def test_logs_are_one_line_a_change_as_json_or_as_text(space: Space) -> None:
    for form, name in (("json", "chat"), ("text", "talk")):
        operator = Operator(space, name=form, extra={"LOG_FORMAT": form})
        try:
            operator.launch()
            space.apply(manifest(name))
            space.reason(name, "ScaledToZero", seconds=60)
            generation = space.patch(name, {"engine": {"maxModelLength": 64}})
            told = partial(lambda made: b"applied" in made.log.read_bytes(), operator)
            until(told, "the change is told", 60)
            assert operator.stop(signal.SIGTERM) == 0
        finally:
            operator.kill()
        lines = operator.log.read_text().splitlines()
        if form == "json":
            entries = [json.loads(line) for line in lines]
            applied = [entry for entry in entries if entry["event"] == "applied"]
            assert [(e["kind"], e["child"], e["generation"]) for e in applied] == [
                ("Deployment", name, generation)
            ]
            assert all(e["namespace"] == space.name and e["sloserve"] == name for e in applied)
            assert applied[0]["because"].startswith("spec.template")
        else:
            (line,) = [line for line in lines if "applied" in line]
            assert f"generation={generation}" in line
            assert "because=spec.template" in line
