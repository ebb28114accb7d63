"""An HTTP proxy between the operator and the API server that answers some requests itself, as it is told.

It ends TLS with a certificate of its own and passes everything else on, the credentials too. `proxy.py`
breaks connections; this one breaks answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from tests.cluster import pki

HOP = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"}


@dataclass
class Fault:
    """An answer to the next `times` requests that match; with `event`, a watch that says only that."""

    status: int
    method: str = ""
    path: str = ""
    watch: bool = False
    times: int = 1
    retry_after: int | None = None
    event: bool = False
    given: int = 0

    def matches(self, call: Call) -> bool:
        """Whether this request is to be answered so."""
        same = call.watch == self.watch and self.path in call.path
        return same and self.given < self.times and self.method in ("", call.method)


@dataclass
class Call:
    """One request, and what was answered."""

    method: str
    path: str
    watch: bool
    status: int = 0


class HttpProxy:
    """Runs on a thread of its own; every method may be called from the test."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        parts = urlsplit(cluster["server"])
        self._target = f"https://{parts.hostname}:{parts.port or 443}"
        self._theirs = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        pki.create(directory, ["IP:127.0.0.1"], [])
        self._authority = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
        self._ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ours.load_cert_chain(directory / "apiserver.crt", directory / "apiserver.key")
        self.port = 0
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self._watches: set[asyncio.Task[Any]] = set()
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
            entry["cluster"] = {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority-data": self._authority,
            }
        path = kubeconfig.with_name(f"{kubeconfig.name}-{self.port}")
        path.write_text(yaml.safe_dump(config))
        return path

    def end_watches(self) -> None:
        """End every watch, as an API server does that goes away."""
        self._do(self._cancel_watches())

    def since(self, mark: int, *, watch: bool = False) -> list[Call]:
        """What was asked after the first `mark` calls."""
        return [call for call in self.calls[mark:] if call.watch == watch]

    def _do(self, task: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(task, self._loop).result(timeout=20)

    async def _listen(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._theirs, limit=0),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._ours)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _end(self) -> None:
        await self._cancel_watches()
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.2)  # TLS takes its leave

    async def _cancel_watches(self) -> None:
        for task in self._watches:
            task.cancel()
        await asyncio.sleep(0)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, request.query.get("watch") == "true")
        self.calls.append(call)
        fault = next((fault for fault in self.faults if fault.matches(call)), None)
        if fault:
            fault.given += 1
            call.status = fault.status
            return _refusal(fault)
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        url = URL(f"{self._target}{request.raw_path}", encoded=True)
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, skip_auto_headers=["Content-Type"]
            ) as back:
                call.status = back.status
                kept = {k: v for k, v in back.headers.items() if k.lower() not in HOP}
                response = web.StreamResponse(status=back.status, headers=kept)
                await response.prepare(request)
                if call.watch:
                    await self._stream(back, response)
                else:
                    await response.write(await back.read())
                return response
        except (aiohttp.ClientError, OSError):
            call.status = 502
            return web.Response(status=502)

    async def _stream(self, back: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        async def copy() -> None:
            async for piece in back.content.iter_any():
                await response.write(piece)

        task = asyncio.create_task(copy())
        self._watches.add(task)
        await asyncio.wait([task])
        self._watches.discard(task)
        if not task.cancelled():
            task.exception()


def _refusal(fault: Fault) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"injected {fault.status}",
        "reason": "Injected",
        "code": fault.status,
    }
    if fault.event:
        line = json.dumps({"type": "ERROR", "object": status})
        return web.Response(text=f"{line}\n", content_type="application/json")
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.json_response(status, status=fault.status, headers=headers)


@contextlib.contextmanager
def answering(kubeconfig: Path, directory: Path) -> Iterator[HttpProxy]:
    """A proxy to the server of a kubeconfig, while the block runs."""
    proxy = HttpProxy(kubeconfig, directory)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
