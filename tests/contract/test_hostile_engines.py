"""Two hundred hostile answers of an engine, over HTTP, to an operator on a real API server: no pass breaks,
every status is taken, and what the engine says well in between counts."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
from collections.abc import AsyncIterator

import pytest
from sloserve_operator import engine_metrics
from sloserve_operator.api.engine import EngineState
from sloserve_operator.engine_metrics import EngineClient

from tests.contract.test_live import Live
from tests.contract.test_live import live as live

pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(1800)]
ANSWERS = 200
SECONDS = 1.0


def http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """One answer, as bytes on the wire."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def said(**state: object) -> bytes:
    return http(json.dumps({"applied": {"revision": "a", "generation": 1}, **state}).encode())


BY_HAND = [
    said(alpha=float("nan")),
    said(alpha=-1),
    said(applied={"revision": "a", "generation": 10**20}),
    said(applied={"revision": "a" * 100_000, "generation": -3}),
    said(classes={"dialogue": {"good": -2, "violations": {"request": 5}}}),
    said(classes={"\x00\x1b[31m\n": {"good": -1}}),
    said(classes={str(number): {"good": 1} for number in range(20_000)}),
    said(rejected={"revision": "a", "generation": 1, "message": "m" * 500_000}),
    http(b'{"predictor": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    http(b"[" * 3_000_000),
    http(b"<html>It works!</html>", "Content-Type: text/html"),
    http(b"", "Location: http://127.0.0.1:1/", status="302 Found"),
    http(b"", "Location: http://[::bad", status="301 Moved"),
    http(gzip.compress(b"0" * 50_000_000), "Content-Encoding: gzip"),
    http(b"{}", length=999),
    http(b"{}", length=-5),
    http(b"{}", status="99999 what"),
    http(b"{}", "Content-Type: application/json; charset=nonsense"),
    http(b"{}", "Set-Cookie: a=b; Max-Age=99999999999999999999"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n{}",
    b"\x00" * 400,
    b"",
]


def answers() -> list[bytes]:
    """Those by hand, then the same with some bytes changed; always the same two hundred."""
    stream = random.Random(20261201)
    small = [answer for answer in BY_HAND if 20 < len(answer) < 5_000]
    out = list(BY_HAND)
    while len(out) < ANSWERS:
        changed = bytearray(stream.choice(small))
        for _ in range(stream.randrange(1, 12)):
            changed[stream.randrange(len(changed))] = stream.randrange(256)
        out.append(bytes(changed))
    return out


class Wire:
    """Reads the engine at the test's own server, whatever the pod's address."""

    def __init__(self) -> None:
        self.answer = b""
        self._client = EngineClient(SECONDS)

    async def read(self, address: str) -> EngineState | str:
        return await self._client.read("127.0.0.1")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            await writer.drain()
        writer.close()

    async def close(self) -> None:
        await self._client.close()


@pytest.fixture
async def wire(live: Live, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wire]:
    made = Wire()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    monkeypatch.setattr(engine_metrics, "PORT", server.sockets[0].getsockname()[1])
    monkeypatch.setattr(live.reconciler, "_engines", made)
    yield made
    server.close()
    await made.close()


async def test_no_answer_of_an_engine_keeps_a_status_from_being_written(live: Live, wire: Wire) -> None:
    await live.look()
    revision, generation = live.written()
    well = said(applied={"revision": revision, "generation": generation})
    for number, answer in enumerate(answers()):
        wire.answer = answer
        await live.look()  # one silence is forgiven
        await live.look()
        if number % 20 == 0:
            wire.answer = well
            await live.look()
            condition = live.space.condition("chat", "ConfigApplied")
            assert (condition["status"], number) == ("True", number), condition
    at = live.space.patch("chat", {"scheduler": {"alpha": 0.5}})
    await live.look()
    assert live.space.must("sloserve", "chat")["status"]["observedGeneration"] == at
