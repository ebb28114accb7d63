"""The outermost ASGI layer of each API server: checks a promise at the door and watches the request to its
end.

It asks for the API key first (see `keys`). Then it is the first of the two writers of the promise (the other
is the wrapper of `process_inputs`). What it refuses is a 400 in OpenAI's error form before anything is
queued; vLLM itself could only answer 200 and an error event to a stream.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import Any

from slidingserve.server import frontend
from slidingserve.server.attainment import CURRENT, Counts, Tracker
from slidingserve.server.drain import App, Message, Receive, Send
from slidingserve.server.frontend import FrontEnd
from slidingserve.server.keys import guarded, refuse
from slidingserve.server.promise import Asked, PromiseError

GENERATION_PATHS = (
    "/completions",
    "/completions/batch",
    "/responses",
    "/messages",
    "/v2/chat",
    "/generate",
    "/invocations",
)
"""Ends of the paths that generate text: OpenAI's, Anthropic's, Cohere's, vLLM's own and SageMaker's."""


class PromiseMiddleware:
    """ASGI middleware; vLLM makes it from `--middleware`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Refuse a bad promise, else serve the request under a `Tracker`. A drain sees every request."""
        front = frontend.get()
        if front is None or scope["type"] != "http":
            await guarded(self._app)(scope, receive, send)
            return
        app = guarded(partial(self._serve, front) if _generates(scope) else self._app)
        await front.drain.serve(app, scope, receive, send)

    async def _serve(
        self, front: FrontEnd, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        config = front.config
        try:
            asked = Asked.from_headers(scope["headers"], config)
        except PromiseError as error:
            await refuse(send, 400, str(error), error.param)
            return
        tracker = Tracker(config, asked, delivered=front.delivery.add)
        watched = _Watched(tracker, receive, send)
        token = CURRENT.set(tracker)
        try:
            await self._app(scope, watched.receive, watched.send)
        except Exception:
            watched.failed()
            raise
        finally:
            CURRENT.reset(token)
            watched.close(front.counts)


def _generates(scope: MutableMapping[str, Any]) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].rstrip("/").endswith(GENERATION_PATHS))


class _Watched:
    """The two channels of one request, read on the way: status, streamed parts, the end, or a client that
    left."""

    def __init__(self, tracker: Tracker, receive: Receive, send: Send) -> None:
        self._tracker = tracker
        self._receive = receive
        self._send = send
        self._status = 0
        self._complete = False
        self._left = False

    async def receive(self) -> Message:
        message = await self._receive()
        # Servers also say "disconnect" after a complete response; that is no client leaving.
        if message["type"] == "http.disconnect" and not self._complete:
            self._left = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._tracker.streaming = _is_event_stream(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            if self._tracker.streaming and body and not body.startswith(b":"):  # ":" is a keep-alive comment
                self._tracker.sent()
            self._complete = not message.get("more_body", False)
        try:
            await self._send(message)
        except OSError:
            self._left = True
            raise

    def failed(self) -> None:
        """The application raised: without a response so far the server answers 500, after it."""
        if not self._status and not self._left:
            self._status = 500

    def close(self, counts: Counts) -> None:
        self._tracker.close(counts, status=self._status, disconnected=self._left)


def _is_event_stream(headers: Any) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers
    )
