"""Reading an engine's state over real HTTP, however the bytes arrive."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from sloserve_operator import engine_metrics
from sloserve_operator.api.engine import EngineState
from sloserve_operator.engine_metrics import EngineClient

from tests.ports import loopbacks

ADDRESS = ""


@pytest.fixture(params=loopbacks())
async def answer(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[bytes]]:
    """The parts in which an engine on this machine answers, by either family of addresses."""
    parts: list[bytes] = []

    async def state(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a reader may have heard enough
            for part in parts:
                await response.write(part)
                await asyncio.sleep(0.05)  # so that each is a read of its own
        return response

    app = web.Application()
    app.router.add_get("/slidingserve/v1/state", state)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, request.param, 0)
    await site.start()
    monkeypatch.setattr(engine_metrics, "PORT", runner.addresses[0][1])
    monkeypatch.setattr(f"{__name__}.ADDRESS", request.param)
    yield parts
    await runner.cleanup()


async def read() -> EngineState | str:
    client = EngineClient(timeout=5)
    try:
        return await client.read(ADDRESS)
    finally:
        await client.close()


async def test_a_state_that_arrives_in_parts_is_read_whole(answer: list[bytes]) -> None:
    text = json.dumps({"applied": {"revision": "new", "generation": 4}}).encode()
    answer += [text[:10], text[10:]]
    got = await read()
    assert isinstance(got, EngineState), got
    assert got.applied.revision == "new"


async def test_a_state_that_does_not_end_is_not_taken_in(answer: list[bytes]) -> None:
    answer += [b" " * engine_metrics.MOST_BYTES, b" "]
    assert await read() == "answered with a state of more than 1048576 bytes"


async def test_a_small_answer_that_would_unfold_to_a_large_one_is_not_unfolded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def state(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=gzip.compress(b" " * (1 << 24)), headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_get("/slidingserve/v1/state", state)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(engine_metrics, "PORT", runner.addresses[0][1])
    monkeypatch.setattr(f"{__name__}.ADDRESS", "127.0.0.1")
    said = await read()
    await runner.cleanup()
    assert isinstance(said, str)
    assert "does not understand" in said


async def test_what_is_wrong_with_a_state_is_named(answer: list[bytes]) -> None:
    answer += [b'{"applied": {"revision": "a", "generation": 99999999999999999999}}']
    said = await read()
    assert isinstance(said, str)
    assert "applied.generation: " in said
