"""A Service on loopback and the clients of it: what a rolling change looks like from the outside.

As with kube-proxy, a new connection goes to the endpoints in turn, and one that exists stays where it is,
whatever becomes of its endpoint. Clients keep their connection and repeat nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count

import httpx

PROBE_SECONDS = 0.5
LAG_SECONDS = 2.0
"""From the moment that an engine is not ready to the last connection that is sent there."""


class Service:
    """Forwards each connection to an endpoint."""

    def __init__(self, ports: list[int]) -> None:
        self.endpoints = list(ports)
        self.connections: Counter[int] = Counter()
        self.url = ""
        self._turn = count()
        self._tasks: set[asyncio.Task[None]] = set()

    async def withdraw(self, port: int) -> None:
        """Send nobody there any more, after what that takes in a cluster."""
        await asyncio.sleep(LAG_SECONDS)
        self.endpoints.remove(port)

    async def follow_readiness(self) -> None:
        """Withdraw an endpoint when it is not ready."""
        async with httpx.AsyncClient(timeout=30) as client:
            while True:
                for port in list(self.endpoints):
                    answer = await client.get(f"http://127.0.0.1:{port}/slidingserve/v1/ready")
                    if answer.status_code != 200:
                        await self.withdraw(port)
                await asyncio.sleep(PROBE_SECONDS)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Service]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.endpoints[next(self._turn) % len(self.endpoints)]
        self.connections[port] += 1
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        for source, target in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.create_task(_pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends; then that end too."""
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


@dataclass
class Clients:
    """A steady load: half of the clients stream long answers one after the other, half short ones with
    pauses."""

    url: str
    key: str
    long_tokens: int = 400
    complete: Counter[int] = field(default_factory=Counter)
    """Whole answers by client."""
    lost: list[str] = field(default_factory=list)
    """What became of the requests that had no whole answer."""
    size: int = 12
    _stop: bool = False

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[Clients]:
        """Send until the block ends, and let every request end by itself."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.size):
                client = await self._connected(number)
                tasks.create_task(self._repeat(number, client))
            try:
                yield self
            finally:
                self._stop = True

    async def one_more_each(self) -> None:
        """Return when each client had another answer, good or bad."""
        before, lost = Counter(self.complete), len(self.lost)
        while (  # noqa: ASYNC110 - any of many tasks may end it
            not all(self.complete[n] > before[n] for n in range(self.size)) and len(self.lost) == lost
        ):
            await asyncio.sleep(0.1)

    async def _connected(self, number: int) -> httpx.AsyncClient:
        """One client, one connection, made in turn so that each endpoint has as many of them."""
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=600)
        headers = {"authorization": f"Bearer {self.key}"}
        client = httpx.AsyncClient(base_url=self.url, limits=limits, timeout=120, headers=headers)
        await self._ask(client, number, 2)
        return client

    async def _repeat(self, number: int, client: httpx.AsyncClient) -> None:
        async with contextlib.aclosing(client):
            for turn in count():
                if self._stop:
                    return
                long = number % 4 < 2
                await self._ask(client, number, self.long_tokens if long else 5)
                if not long or self.lost:
                    await asyncio.sleep(0.1 + (number * 7 + turn * 3) % 10 / 10)

    async def _ask(self, client: httpx.AsyncClient, number: int, tokens: int) -> None:
        body = {"model": "tiny", "prompt": f"hello {number}", "max_tokens": tokens, "stream": True}
        made, ended = 0, False
        try:
            async with client.stream("POST", "/v1/completions", json=body | {"ignore_eos": True}) as answer:
                if answer.status_code != 200:
                    self.lost.append(f"{answer.status_code}: {(await answer.aread()).decode()}")
                    return
                async for line in answer.aiter_lines():
                    ended |= line == "data: [DONE]"
                    if line.startswith("data: {"):
                        document = json.loads(line[6:])
                        made += len("".join(choice["text"] for choice in document.get("choices", ())))
        except httpx.HTTPError as error:
            self.lost.append(repr(error))
            return
        if ended and made == tokens:
            self.complete[number] += 1
        else:
            self.lost.append(f"{made} of {tokens} tokens, {'' if ended else 'no '}[DONE]")
