"""From nothing to watching: faults from outside are waited for, watches that always end are a fault."""

import asyncio
import logging
from typing import Any

import pytest
from kopf import LoginError
from sloserve_operator import watches
from sloserve_operator.kube import KubeError
from sloserve_operator.logs import QUIET_SECONDS, Calm
from sloserve_operator.watches import MOST_SHORT, WatchError, Watches


class Server:
    """Answers what is in `answers`, one after the other, then that it serves the kind."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.primed = list(answers), 0
        self.namespaces: list[str] = ["default"]
        self.changed = asyncio.Event()

    async def served(self, namespace: str) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    async def prime(self) -> None:
        self.changed.clear()
        self.primed += 1


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "FIRST_PAUSE_SECONDS", 0.0)


def made(server: Any, inform: Any, clock: Any = lambda: 0.0) -> Watches:
    return Watches(server, server, inform, clock, poll_seconds=0)


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_what_the_server_says_is_the_fault_until_it_serves() -> None:
    server = Server(KubeError("look", 401, "Unauthorized"), False, KubeError("look", 0, "refused"))
    watching = made(server, for_ever)
    task = asyncio.create_task(watching.run())
    seen = []
    while not watching.active.is_set():
        await asyncio.sleep(0)
        if watching.fault not in seen:
            seen.append(watching.fault)
    assert seen[-4:-1] == ["look: Unauthorized", watches.NO_CRD, "look: refused"]
    assert watching.fault is None
    assert server.primed == 1
    task.cancel()


async def test_watches_that_end_are_begun_anew_after_another_list() -> None:
    server, ends = Server(), 3

    async def inform() -> None:
        if server.primed <= ends:
            raise RuntimeError("410 Gone")
        await for_ever()

    watching = made(server, inform)
    task = asyncio.create_task(watching.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert server.primed == ends + 1
    assert watching.active.is_set()
    assert watching.fault is None
    task.cancel()


async def test_watches_that_always_end_at_once_end_the_process() -> None:
    async def inform() -> None:
        raise RuntimeError("broken")

    server = Server()
    with pytest.raises(WatchError, match="broken"):
        await made(server, inform).run()
    assert server.primed == MOST_SHORT + 1


async def test_watches_that_lived_for_long_may_end_as_often_as_they_like() -> None:
    now, lives = 0.0, 0

    async def inform() -> None:
        nonlocal now, lives
        now, lives = now + 3600, lives + 1
        if lives > 3 * MOST_SHORT:
            raise asyncio.CancelledError
        raise RuntimeError("the API server was upgraded")

    with pytest.raises(asyncio.CancelledError):
        await made(Server(), inform, lambda: now).run()


async def test_other_namespaces_to_watch_begin_the_watches_anew_and_are_no_fault() -> None:
    server, began, ended = Server(), 0, 0

    async def inform() -> None:
        nonlocal began, ended
        began += 1
        try:
            await for_ever()
        finally:
            ended += 1

    watching = made(server, inform)
    task = asyncio.create_task(watching.run())
    for turn in range(1, 3 * MOST_SHORT):
        for _ in range(20):
            await asyncio.sleep(0)
        assert (began, ended, watching.fault) == (turn, turn - 1, None)
        server.changed.set()
    task.cancel()
    await asyncio.wait([task])
    assert began == ended


async def test_a_first_namespace_that_is_gone_does_not_keep_from_asking_in_the_next() -> None:
    server = Server(KubeError("look", 403, "forbidden"))
    server.namespaces = ["gone", "default"]
    watching = made(server, for_ever)
    task = asyncio.create_task(watching.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert watching.fault is None
    assert server.primed == 1
    task.cancel()


def record(name: str, message: str, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error else None
    return logging.LogRecord(name, logging.ERROR, "", 0, message, (), info)


def test_kopfs_errors_from_outside_have_no_traceback_and_our_own_have() -> None:
    outside = record("kopf.core", "has failed", LoginError("no credentials"))
    assert Calm().filter(outside)
    assert outside.exc_info is None
    ours = record("kopf.core", "has failed", KeyError("a bug"))
    assert Calm().filter(ours)
    assert ours.exc_info is not None
    assert not Calm().filter(record("asyncio", "never retrieved", LoginError("no credentials")))


def test_of_all_watches_that_are_refused_one_tells_in_a_minute() -> None:
    now = 0.0
    calm = Calm(lambda: now)
    line = "Request attempt #1 failed; will retry"
    assert [calm.filter(record("kopf.watching", line)) for _ in range(9)] == [True] + 8 * [False]
    assert calm.filter(record("kopf.watching", "something else"))
    now = QUIET_SECONDS
    assert calm.filter(record("kopf.watching", line))
