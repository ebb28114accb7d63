"""A scripted OpenAI server on a loopback socket: every way in which a real one can disappoint."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

Behave = Callable[[dict[str, Any], dict[str, str]], str]


TEXT = "x\u2028\x85"
"""Characters that end a line for Python's splitlines, but not in a stream of events."""


@dataclass
class FakeServer:
    """``behave(body, headers)`` names what happens to a completion; requests are kept for assertions."""

    behave: Behave
    url: str = ""
    seen: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    open_now: int = 0
    open_most: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _request(reader)) is not None:
                if not await self._answer(request, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _answer(self, request: tuple[str, dict[str, str], bytes], writer: asyncio.StreamWriter) -> bool:
        path, headers, content = request
        if path.endswith("/models"):
            return await _reply(writer, 200, {"data": [{"id": "fake"}]})
        body = json.loads(content)
        self.seen.append((body, headers))
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        try:
            return await self._complete(self.behave(body, headers), body["max_tokens"], writer)
        finally:
            self.open_now -= 1

    async def _complete(self, what: str, tokens: int, writer: asyncio.StreamWriter) -> bool:
        if what == "hang":
            await asyncio.Event().wait()
        if what.isdigit():
            return await _reply(
                writer, int(what), {"error": {"message": f"refused with {what}", "code": int(what)}}
            )
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        if what.startswith("event:"):
            _event(writer, what.removeprefix("event:"))
        if what == "event-error":
            _event(writer, json.dumps({"error": {"message": "engine died"}}))
        sent = tokens // 2 if what in {"cut", "close"} else tokens
        for count in range(1, sent + 1):
            if what != "pairs" or count % 2 == 0:
                chunk = {"choices": [{"text": TEXT}], "usage": {"completion_tokens": count}}
                _event(writer, json.dumps(chunk, ensure_ascii=False))
                await writer.drain()
                await asyncio.sleep(0)
        if what == "close":
            return False
        if what != "cut":
            _event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _event(writer: asyncio.StreamWriter, payload: str) -> None:
    line = f"data: {payload}\n\n".encode()
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


async def _reply(writer: asyncio.StreamWriter, status: int, content: dict[str, Any]) -> bool:
    body = json.dumps(content).encode()
    writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return True


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    line = await reader.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while row := (await reader.readline()).decode().strip():
        name, _, value = row.partition(":")
        headers[name.lower()] = value.strip()
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return line.decode().split()[1], headers, content


@asynccontextmanager
async def serving(behave: Behave) -> AsyncIterator[FakeServer]:
    """The server on a free loopback port."""
    fake = FakeServer(behave)
    server = await asyncio.start_server(fake.handle, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()


@contextmanager
def threaded(behave: Behave) -> Iterator[FakeServer]:
    """The scripted server on a loop of its own, since the command runs its own."""
    ready = threading.Event()
    box: list[FakeServer] = []
    hooks: list[Callable[[], object]] = []

    async def main() -> None:
        stop = asyncio.Event()
        async with serving(behave) as server:
            loop = asyncio.get_running_loop()
            box.append(server)
            hooks.append(lambda: loop.call_soon_threadsafe(stop.set))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(10)
    try:
        yield box[0]
    finally:
        hooks[0]()
        thread.join(10)
