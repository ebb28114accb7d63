"""A Service on loopback, for the clients of tests.streams: a rolling change as it looks from the outside.

As with kube-proxy, a new connection goes to the endpoints in turn, and one that exists stays where it is,
whatever becomes of its endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
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

    async def withdrawn(self, port: int) -> None:
        """Return when nobody is sent there any more."""
        while port in self.endpoints:  # noqa: ASYNC110 - another task withdraws it
            await asyncio.sleep(0.1)

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
    try:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
    finally:
        target.close()
