"""The drain of one engine: how it leaves its Service without losing a request.

Place in the flow: the kubelet's preStop runs `slidingserve drain` in the container (`drain`). That leaves a
mark in the state directory, which every API server process sees (`Drain`): `ready` answers 503, all requests
are still served, each response closes its connection, and the process says in its state file when nothing
can come any more. The command returns then, and only now SIGTERM follows: from there on vLLM answers 500 to
whatever is new.

A file needs no port, no API key and no API server that answers, works for any number of processes, and can
only be written from inside the pod.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slidingserve.server import state
from slidingserve.server.runtime import Runtime

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

KEEP_ALIVE = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
DEFAULT_KEEP_ALIVE_SECONDS = 5.0
MARGIN_SECONDS = 1.0
POLL_SECONDS = 0.2
REASON = "draining: this engine is about to stop; it serves what still arrives"

logger = logging.getLogger("vllm.slidingserve")


class DrainError(Exception):
    """There is nothing to drain; the message is one line for the user."""


def mark(runtime: Runtime) -> Path:
    """The file whose presence means: drain. An engine wipes it when it starts."""
    return runtime.process_dir / "drain"


class Drain:
    """What one API server process does about it. All methods may be called from any thread but `serve`,
    which belongs to the event loop."""

    def __init__(self, runtime: Runtime, env: Mapping[str, str] = os.environ) -> None:
        self._mark = mark(runtime)
        self._idle_seconds = _keep_alive(env) + MARGIN_SECONDS
        self._open = 0
        self._kept = time.monotonic()
        """When the last connection was left open."""
        self._seen: float | None = None

    @property
    def begun(self) -> bool:
        """Whether the mark is there, now."""
        return self._mark.exists()

    async def serve(self, app: App, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve a request; its connection ends with it if the drain has begun when the response does."""
        closes = False

        async def send_on(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start" and self.begun:
                closes = True
                message = {**message, "headers": _closing(message.get("headers", ()))}
            await send(message)

        self._open += 1
        try:
            await app(scope, receive, send_on)
        finally:
            self._open -= 1
            if not closes:
                self._kept = time.monotonic()

    def report(self) -> dict[str, Any] | None:
        """For this process's state file: requests that run, and whether none can come any more. None
        without a drain.

        A connection that was left open is closed by the server after an idle time; until then its client may
        use it once more.
        """
        now = time.monotonic()
        if not self.begun:
            self._seen = None
            return None
        if self._seen is None:
            self._seen = now
            logger.info("slidingserve: %s", REASON)
        left = max(self._seen, self._kept)
        return {"open": self._open, "done": self._open == 0 and now - left >= self._idle_seconds}


@dataclass(frozen=True)
class Drained:
    """How a drain ended: after so many seconds, with so many requests still open.

    `silent`: API servers that did not report since it began. `gone`: the engine ended meanwhile.
    """

    seconds: float
    open: int
    done: bool
    silent: int = 0
    gone: bool = False

    def __str__(self) -> str:
        if self.gone:
            return f"the engine ended by itself after {self.seconds:.1f} s: there is nothing left to drain"
        if self.done:
            return f"drained in {self.seconds:.1f} s: no request is open"
        return f"not drained within {self.seconds:.1f} s: {self._why()}"

    def _why(self) -> str:
        """What a stop would meet now."""
        said = []
        if self.open:
            requests = "1 request is" if self.open == 1 else f"{self.open} requests are"
            said.append(f"{requests} open and will be cut")
        if self.silent:
            servers = "1 API server has" if self.silent == 1 else f"{self.silent} API servers have"
            said.append(f"{servers} not reported, and what is open there will be cut")
        idle = "no request is open, but clients may still use connections that they keep; give it more time"
        return "; ".join(said) or idle


def drain(
    state_dir: Path,
    *,
    wait: float,
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Drained:
    """Begin the drain and return when the engine can be stopped.

    `wait`: seconds for everyone to learn that this engine is not ready. `timeout`: seconds after them for
    requests to end and idle connections to close. Calling it again, also at the same time, changes nothing.
    Raises DrainError if no engine runs there.
    """
    runtime = Runtime(state_dir)
    begin = clock()
    if not _runs(state_dir):
        raise DrainError(f"--state-dir {state_dir}: no engine runs there; give the directory of `serve`")
    try:
        mark(runtime).touch()
    except OSError as error:
        raise DrainError(f"--state-dir {state_dir}: {error.strerror}; drain as the engine's user") from None
    while True:
        reports = [d.get("drain") for d in state.read_all(runtime.process_dir) if d["role"] == "api"]
        open_requests = sum(report["open"] for report in reports if report)
        silent = sum(report is None for report in reports)
        # Without an API server there was never a connection.
        done = all(report is not None and report["done"] for report in reports)
        elapsed = clock() - begin
        if not _runs(state_dir):
            return Drained(elapsed, 0, True, gone=True)
        if done and (elapsed >= wait or not reports):
            return Drained(elapsed, open_requests, True)
        if elapsed >= wait + timeout:
            return Drained(elapsed, open_requests, False, silent)
        sleep(POLL_SECONDS)


def cancel(state_dir: Path) -> None:
    """Take the mark away: the engine is ready again. Raises DrainError if that is not possible."""
    try:
        mark(Runtime(state_dir)).unlink(missing_ok=True)
    except OSError as error:
        raise DrainError(f"--state-dir {state_dir}: {error.strerror}; drain as the engine's user") from None


def _runs(state_dir: Path) -> bool:
    """Whether an engine holds the lock of its state directory."""
    try:
        with (state_dir / "lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _closing(headers: Any) -> list[tuple[bytes, bytes]]:
    return [
        *((name, value) for name, value in headers if name.lower() != b"connection"),
        (b"connection", b"close"),
    ]


def _keep_alive(env: Mapping[str, str]) -> float:
    """After how many idle seconds vLLM's server closes a connection."""
    try:
        return float(env[KEEP_ALIVE])
    except (KeyError, ValueError):
        return DEFAULT_KEEP_ALIVE_SECONDS
