"""The process: exit status, a kill between any two writes, a missing CRD."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from sloserve_operator.cache import Cache
from sloserve_operator.kube import Kube
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.reconcile import Images, Reconciler
from sloserve_operator.resync import Resync
from sloserve_operator.telemetry import Telemetry

from tests.contract.space import Operator, Space, manifest

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


async def test_killed_between_any_two_writes_it_converges(space: Space) -> None:
    kube = Kube(timeout=30)
    await kube.connect(space.cluster.kubeconfig)
    for writes, after in ((n, late) for n in range(1, 30) for late in (False, True)):
        obj = manifest(f"chat-{writes}-{str(after).lower()}")
        name = obj["metadata"]["name"]
        obj["metadata"]["namespace"] = space.name
        await kube.create(obj)
        _, killed = await life(space, name, writes, after)
        await life(space, name)
        again, _ = await life(space, name)
        assert {operation for _, operation in await managers(kube, space, name)} == {"Apply"}
        assert again <= 1, "one status at most, as the Deployment's controller goes on"
        if not killed:
            break
    await kube.close()
    assert 8 < writes < 29, "each child is two writes, then comes the status"


def test_a_term_signal_ends_it_with_zero_and_a_kill_does_not(space: Space, operator: Operator) -> None:
    assert operator.stop(signal.SIGTERM) == 0
    operator.start()
    assert operator.stop(signal.SIGKILL) == -signal.SIGKILL
