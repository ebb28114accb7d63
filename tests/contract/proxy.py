"""A TCP proxy between the operator and the API server, and what a test may do to its connections.

It passes TLS through: the API server's certificate is also for 127.0.0.1. `cut` ends connections and takes no
new one; `hang` keeps all open and passes no byte, either way; `slow` passes each piece late; `heal` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

PIECE = 65536


class Proxy:
    """Runs on a thread of its own; every method may be called from the test."""

    def __init__(self, kubeconfig: Path) -> None:
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        parts = urlsplit(server)
        self.target = (str(parts.hostname), parts.port or 443)
        self.port = 0
        self.connections = 0
        self._mode, self._delay = "pass", 0.0
        self._stalled = 0  # connections up to this number pass nothing
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        """Listen on a free port of this machine."""
        self._thread.start()
        self._do(self._listen())

    def stop(self) -> None:
        """End all connections and the thread."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def through(self, kubeconfig: Path) -> Path:
        """The same credentials, by way of this proxy."""
        config = yaml.safe_load(kubeconfig.read_text())
        for entry in config["clusters"]:
            entry["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = kubeconfig.with_name(f"{kubeconfig.name}-{self.port}")
        path.write_text(yaml.safe_dump(config))
        return path

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        self._set("cut")
        self.drop()

    def hang(self) -> None:
        """Keep every connection, old and new, and pass nothing."""
        self._set("hang")

    def stall(self) -> None:
        """Pass nothing on the connections that are open now, and all on new ones."""
        self._stalled = self.connections

    def slow(self, seconds: float) -> None:
        """Pass each piece of at most 64 KiB after this time."""
        self._delay = seconds
        self._set("slow")

    def heal(self) -> None:
        """Pass at once what comes, and what had to wait."""
        self._set("pass")

    def drop(self) -> None:
        """End every connection; new ones are treated as before."""
        self._do(self._close())

    def _set(self, mode: str) -> None:
        self._mode = mode

    def _do(self, task: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(task, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            back, out = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, out}
        try:
            await asyncio.gather(self._pass(number, reader, out), self._pass(number, back, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._open -= {writer, out}
            for end in (writer, out):
                end.transport.abort()

    async def _pass(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            while self._mode == "hang" or number <= self._stalled:  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.02)
            if self._mode == "slow":
                await asyncio.sleep(self._delay)
            writer.write(piece)
            await writer.drain()
        writer.transport.abort()
        raise ConnectionResetError


@contextlib.contextmanager
def proxied(kubeconfig: Path) -> Iterator[Proxy]:
    """A proxy to the server of a kubeconfig, while the block runs."""
    proxy = Proxy(kubeconfig)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
