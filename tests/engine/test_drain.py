"""Emulated engines leave a Service while clients send without pause: with the drain no request is lost,
without it some are. And who is not ready: a frozen engine, not a busy one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from slidingserve.server import state
from slidingserve.server.drain import REASON, cancel, drain
from slidingserve.server.runtime import Runtime

from tests.engine.served import Served, ends_with_its_killed_core, start, wait
from tests.engine.service import Service
from tests.engine.test_emulated import NAME
from tests.streams import Clients

KEY = "secret"
API_SERVERS = 2
LOOKS = 4
ARGUMENTS = (
    *("--emulate", NAME, "--calibration-seconds", "0", "--shutdown-timeout", "60"),
    *("--api-key", KEY),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], list[Served]]]:
    """So many engines that run; what a test has stopped is replaced for the next. The first one has two API
    servers, and is the first that a test gets; so has the third, which is left in the end."""
    made: list[Served] = []

    def at_least(number: int) -> list[Served]:
        alive = [engine for engine in made if engine.process.poll() is None]
        while len(alive) < number:
            more = ("--api-server-count", str(API_SERVERS)) if len(made) in (0, 2) else ()
            made.append(start(Path("tiny"), tmp_path_factory.mktemp("engine"), *ARGUMENTS, *more))
            alive.append(made[-1])
        return alive[:number]

    yield at_least
    for engine in made:
        engine.stop()


def ready(engine: Served) -> tuple[int, str]:
    answer = engine.get("/slidingserve/v1/ready")
    return answer.status_code, answer.json()["reason"]


def drains(engine: Served) -> list[bool]:
    """Whether each API server drains, as it last reported."""
    documents = state.read_all(Runtime(engine.state_dir).process_dir)
    return [document["drain"] is not None for document in documents if document["role"] == "api"]


def head(engine: Served) -> tuple[int, str | None]:
    """Status and connection header of an answer, on a connection of its own."""
    with httpx.Client(headers={"authorization": f"Bearer {KEY}"}, timeout=30) as client:
        answer = client.get(engine.url + "/v1/models")
    return answer.status_code, answer.headers.get("connection")


def test_a_drain_is_seen_at_once_and_ready_comes_back_when_it_is_cancelled(
    running: Callable[[int], list[Served]],
) -> None:
    (engine,) = running(1)
    assert {head(engine) for _ in range(LOOKS)} == {(200, None)}
    assert not drain(engine.state_dir, wait=0, timeout=0).done, "connections may still be open"
    try:
        assert {ready(engine) for _ in range(LOOKS)} == {(503, REASON)}
        assert {head(engine) for _ in range(LOOKS)} == {(200, "close")}
        wait(lambda: all(drains(engine)), "each API server reports it")
        assert len(drains(engine)) == API_SERVERS
        assert engine.get("/health").status_code == 200, "the kubelet must not kill it meanwhile"
    finally:
        cancel(engine.state_dir)
    assert {ready(engine) for _ in range(LOOKS)} == {(200, "")}
    assert {head(engine) for _ in range(LOOKS)} == {(200, None)}


def test_a_busy_engine_is_ready_and_a_frozen_one_is_not(running: Callable[[int], list[Served]]) -> None:
    (engine,) = running(1)
    headers = {"authorization": f"Bearer {KEY}"}
    core = next(int(p["pid"]) for p in engine.state()["processes"] if p["role"] == "core")
    seen: list[tuple[int, str]] = []

    def work(number: int) -> int:
        """A prompt that fills many batches, then tokens."""
        prompt = [16 + number % 200] * 1500
        return engine.complete(prompt, tokens=200, headers=headers, ignore_eos=True).status_code

    with ThreadPoolExecutor(48) as pool:
        answers = [pool.submit(work, number) for number in range(48)]
        while not all(answer.done() for answer in answers):
            seen.append(ready(engine))
    assert [answer.result() for answer in answers] == [200] * 48
    assert len(seen) >= 5
    # Of a starved process one answer may be late; the kubelet wants two in a row.
    assert all((200, "") in pair for pair in pairwise(seen)), seen
    os.kill(core, signal.SIGSTOP)
    try:
        assert ready(engine) == (503, "the engine core did not answer within 2 s")
        assert not drain(engine.state_dir, wait=0, timeout=0).done, "a drain of it ends too"
    finally:
        os.kill(core, signal.SIGCONT)
        cancel(engine.state_dir)
    wait(lambda: ready(engine) == (200, ""), "it is ready again")


def command(engine: Served, *options: str) -> list[str]:
    return [sys.executable, "-m", "slidingserve.cli", "drain", "--state-dir", str(engine.state_dir), *options]


async def pre_stop(engine: Served) -> str:
    """What the kubelet runs, twice, as if its first answer was lost; the line of one."""
    words = command(engine, "--wait", "0", "--timeout", "200")
    both = [await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE) for _ in range(2)]
    lines = [(await one.communicate())[0].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0], lines
    return lines[0]


async def stop(engine: Served) -> None:
    """SIGTERM, and the end."""
    engine.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(engine.process.wait, 120)


async def test_no_request_is_lost_when_an_engine_drains_before_it_is_stopped(
    running: Callable[[int], list[Served]],
) -> None:
    leaves, stays = running(2)
    async with Service([leaves.port, stays.port]).open() as service:
        readiness = asyncio.create_task(service.follow_readiness())
        async with Clients(service.url, key=KEY).run() as clients:
            assert service.connections[leaves.port] == service.connections[stays.port] == clients.size // 2
            await clients.one_more_each()
            hook = asyncio.create_task(pre_stop(leaves))
            await service.withdrawn(leaves.port)
            await hook
            # On a busy machine the Service may have been later than the hook; in a cluster that has --wait.
            assert "no request is open" in await pre_stop(leaves)
            await stop(leaves)
            await clients.one_more_each()
        readiness.cancel()
    assert clients.lost == []
    assert service.connections[stays.port] >= clients.size, "all that had a connection there have one here"


async def test_the_same_pause_without_the_drain_loses_requests(
    running: Callable[[int], list[Served]],
) -> None:
    """As a Service does for a pod that is deleted, the endpoint is withdrawn; clients keep what they have."""
    leaves, stays = running(2)
    async with (
        Service([leaves.port, stays.port]).open() as service,
        Clients(service.url, key=KEY).run() as clients,
    ):
        await clients.one_more_each()
        await service.withdraw(leaves.port)
        assert clients.lost == []
        await stop(leaves)
        await clients.one_more_each()
    assert clients.lost
    assert leaves.process.returncode == 0, "a stop that was asked for is a success all the same"


def test_a_killed_core_is_the_last_line_of_several_api_servers_too(
    running: Callable[[int], list[Served]],
) -> None:
    (engine,) = running(1)
    assert sum(process["role"] == "api" for process in engine.state()["processes"]) == API_SERVERS
    ends_with_its_killed_core(engine)
