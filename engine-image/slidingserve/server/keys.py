"""The API key: whoever generates, reads or changes anything must have it, where the server has one.

The middleware asks here before anything else. vLLM's own check guards the paths below /v1, /v2, /inference
and /cohere alone; /invocations, /tokenize and others stood open beside it. Here every path needs the key but
the few of `OPEN`, so that a route of a later vLLM is shut until somebody opens it. The key is read as vLLM
reads it (`AuthenticationMiddleware`): `--api-key`, else VLLM_API_KEY; `Bearer` in any case.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, MutableMapping
from typing import Any

from slidingserve.server.drain import App, Receive, Send

Scope = MutableMapping[str, Any]

OPEN = (
    "/health",
    "/ping",
    "/load",
    "/metrics",
    "/version",
    "/slidingserve/v1/ready",
    "/slidingserve/v1/state",
)
"""What a probe, a balancer, Prometheus and the operator read: none of it generates, or shows what clients
sent."""
MESSAGE = "Authorization: this server has an API key; send it as `Bearer KEY`"
TYPES = {400: "BadRequestError", 401: "AuthenticationError"}


def guarded(app: App) -> App:
    """The application behind the key."""

    async def ask(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or admits(scope):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": MESSAGE})
        else:
            await refuse(send, 401, MESSAGE, "Authorization")

    return ask


def admits(scope: Scope) -> bool:
    """Whether this request may pass: an open path, a CORS preflight, a server without key, or the key."""
    if scope.get("method") == "OPTIONS" or _route(scope).rstrip("/") in OPEN:
        return True
    wanted = keys(scope)
    return not wanted or _holds(scope["headers"], wanted)


def keys(scope: Scope) -> list[str]:
    """The keys of the server that serves this request; one that is empty is none, as in vLLM."""
    args = getattr(getattr(scope.get("app"), "state", None), "args", None)
    return [key for key in (getattr(args, "api_key", None) or [os.environ.get("VLLM_API_KEY")]) if key]


def _route(scope: Scope) -> str:
    """The path as Starlette's router reads it, so that both mean the same route."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if not root or not path.startswith(root):
        return path
    rest = path[len(root) :]
    return rest if not rest or rest.startswith("/") else path


def _holds(headers: Iterable[tuple[bytes, bytes]], wanted: list[str]) -> bool:
    given = next((value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"), "")
    scheme, _, key = given.partition(" ")
    found = False
    for each in wanted:  # all of them: how long it takes must not tell which
        found |= hmac.compare_digest(_digest(key), _digest(each))
    return found and scheme.lower() == "bearer"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


async def refuse(send: Send, status: int, message: str, param: str) -> None:
    """An answer in OpenAI's error form."""
    detail = {"message": message, "type": TYPES[status], "param": param, "code": status}
    body = json.dumps({"error": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
