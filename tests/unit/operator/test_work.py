"""Workers: a standby drops what it takes, who asks for patience gets it, the rest is tried again."""

import asyncio
import contextlib
from typing import Any

import pytest
from kubernetes.aio.client.rest import ApiException
from sloserve_operator.connection import Connection
from sloserve_operator.kube import KubeError
from sloserve_operator.queue import KeyedQueue
from sloserve_operator.telemetry import Telemetry
from sloserve_operator.work import work

KEY = ("default", "chat")


class Looks:
    """Stands for the reconciler: counts, and fails as told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count, self.error = 0, error

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        self.count += 1
        if self.error:
            raise self.error
        return None


async def turn(queue: KeyedQueue, looks: Any, leads: bool) -> Telemetry:
    telemetry = Telemetry()
    task = asyncio.create_task(work(queue, looks, telemetry, lambda: leads))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return telemetry


async def test_a_standby_takes_keys_and_looks_at_none() -> None:
    queue, looks = KeyedQueue(), Looks()
    queue.add(KEY)
    await turn(queue, looks, leads=False)
    assert looks.count == 0
    assert (queue.waiting(), queue.oldest_seconds()) == (0, 0.0), "or its health would turn bad"
    queue.add(KEY)
    await turn(queue, looks, leads=True)
    assert looks.count == 1


async def test_a_server_that_asks_for_patience_is_left_alone_for_so_long() -> None:
    now = 0.0
    queue = KeyedQueue(lambda: now, lambda: 0.5)
    queue.add(KEY)
    await turn(queue, Looks(KubeError("apply", 429, "too many requests", retry_after=30)), leads=True)
    now = 29.9
    assert queue.take() is None
    now = 30.0
    assert queue.take() == KEY


async def test_a_failure_without_that_is_tried_again_soon_and_counted() -> None:
    now = 0.0
    queue = KeyedQueue(lambda: now, lambda: 0.5)
    queue.add(KEY)
    telemetry = await turn(queue, Looks(KubeError("apply", 500, "internal error")), leads=True)
    now = 1.0
    assert queue.take() == KEY
    assert telemetry.registry.get_sample_value("sloserve_reconcile_total", {"result": "retry"}) == 1


class Refusing(Connection):
    """Asks once for patience, then answers."""

    def __init__(self, clock: Any) -> None:
        super().__init__(10, clock)
        self.sent: list[str] = []
        self._resources = dict.fromkeys(("Service", "Lease"))
        self._dynamic = self

    async def get(self, target: object, **params: Any) -> Any:
        self.sent.append("get")
        if len(self.sent) == 1:
            error = ApiException(status=429, reason="Too Many Requests")
            error.headers = {"Retry-After": "1000"}
            raise error
        return self

    async def json(self) -> dict[str, Any]:
        return {}


async def test_nobody_calls_a_server_that_asked_for_patience_but_for_the_lease() -> None:
    now = 0.0
    connection = Refusing(lambda: now)
    for _ in range(3):
        with pytest.raises(KubeError) as failed:
            await connection._call("read", "get", "Service")
        assert (failed.value.status, failed.value.retry_after) == (429, 60), "a minute at most"
    assert len(connection.sent) == 1
    assert await connection._call("read", "get", "Lease") == {}
    now = 60.0
    assert await connection._call("read", "get", "Service") == {}
