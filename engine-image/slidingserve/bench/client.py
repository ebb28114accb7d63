"""One streamed request on the client's clock: tokens with their times, or a sentence that says what failed.

Called by ``replay``.  Nothing raises here but cancellation: a server that hangs, refuses, answers 400, 429 or
500, or cuts a stream short becomes a row.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from slidingserve.bench.workload import Item, Promise

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how to send: ``url`` is the base that ends in /v1; ``timeout`` (s) is for a whole request.

    ``cache_salt`` keeps a run from finding prefixes that an earlier run of the same seed left in the cache.
    """

    url: str
    model: str
    seed: int = 0
    timeout: float = 120.0
    api_key: str | None = None
    cache_salt: str | None = None
    tell_promise: bool = False
    """Send a request's own limits along, so that the server keeps to what it is judged by."""


@dataclass(slots=True)
class Result:
    """A request as the client saw it; times in seconds, ``sent`` from the start of the run.

    ``token_times`` (s after ``sent``, one per token) are as good as the server's chunks: tokens that came in
    one chunk share a time.  ``error`` is None for a stream that ended as it should.
    """

    index: int
    slo_class: str | None
    arrival: float
    prompt_tokens: int
    output_tokens: int
    sent: float = 0.0
    ended: float = 0.0
    status: int | None = None
    error: str | None = None
    token_times: list[float] = field(default_factory=list)
    text: str = ""
    promise: Promise | None = None

    @property
    def ok(self) -> bool:
        """Whether the stream ended as it should."""
        return self.error is None


def http_client(target: Target, concurrency: int) -> httpx.AsyncClient:
    """A client that never queues inside its pool, which would spoil the clock.

    Raises ConnectionError with a sentence for a URL or a key that cannot be.
    """
    headers = {"authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    try:
        base = httpx.URL(target.url.rstrip("/") + "/")
    except httpx.InvalidURL as error:
        raise ConnectionError(f"--url {target.url!r}: {error}; write http://HOST:PORT/v1") from error
    if not base.host or not 0 <= (base.port or 0) < 1 << 16:
        raise ConnectionError(f"--url {target.url!r}: has no host or no such port; write http://HOST:PORT/v1")
    if target.api_key and not (target.api_key.isascii() and target.api_key.isprintable()):
        raise ConnectionError("--api-key: holds characters that no key has; give the key alone")
    return httpx.AsyncClient(
        base_url=base,
        headers=headers,
        timeout=httpx.Timeout(target.timeout, connect=_CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency + 1),
        trust_env=False,
    )


async def first_model(client: httpx.AsyncClient) -> str:
    """The first model that the server lists.  Raises ConnectionError with a sentence."""
    try:
        response = await client.get("models", timeout=_CONNECT_SECONDS)
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        raise ConnectionError(
            f"{error.request.url} answered {error.response.status_code}; pass --model"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionError(f"{client.base_url}models: {describe(error)}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConnectionError(f"{client.base_url}models lists no model; pass --model") from error


def unsent(item: Item, error: str | None = None) -> Result:
    """The row of an item before anything came of it."""
    return Result(
        item.index,
        item.slo_class,
        item.arrival,
        item.prompt_tokens,
        item.output_tokens,
        error=error,
        promise=item.promise,
    )


async def send(client: httpx.AsyncClient, target: Target, item: Item, started: float) -> Result:
    """Send one item now and read its stream to the end; ``started`` is the run's zero (monotonic s)."""
    result = unsent(item)
    sent = time.monotonic()
    result.sent = sent - started
    try:
        async with asyncio.timeout(target.timeout):
            await _stream(client, target, item, result, sent)
    except TimeoutError:
        result.error = f"not finished within {target.timeout:g} s ({len(result.token_times)} tokens came)"
    except Exception as error:  # whatever it is, it must not end the run and take the other rows with it
        result.error = describe(error)
        if result.token_times:
            result.error += f" after {len(result.token_times)} tokens"
    result.ended = time.monotonic() - started
    return result


async def _stream(client: httpx.AsyncClient, target: Target, item: Item, result: Result, sent: float) -> None:
    headers = {"x-slo-class": item.slo_class} if item.slo_class else {}
    if target.tell_promise and item.promise is not None:
        headers["x-slo-ttft-ms"] = f"{item.promise.ttft * 1000:.6f}"
        headers["x-slo-tbt-ms"] = f"{item.promise.tbt * 1000:.6f}"
    async with client.stream("POST", "completions", json=body(target, item), headers=headers) as response:
        result.status = response.status_code
        if response.status_code != 200:
            result.error = f"{response.status_code}: {_message(await response.aread())}"
            return
        async for line in _lines(response):
            if not line.startswith(b"data:"):
                continue
            payload = line.removeprefix(b"data:").strip()
            if payload == b"[DONE]":
                if not result.token_times:
                    result.error = "stream ended without a token"
                return
            if not _take(result, payload, time.monotonic() - sent):
                return
    result.error = (
        f"stream was cut after {len(result.token_times)} of {item.output_tokens} tokens (no [DONE])"
    )


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Lines of a stream, ended by newlines alone: httpx's own also end at U+2028, which models do write."""
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
    yield rest


def body(target: Target, item: Item) -> dict[str, Any]:
    """The completion request of an item: greedy, exactly ``output_tokens`` long, usage in every chunk."""
    salt = {"cache_salt": target.cache_salt} if target.cache_salt else {}
    return salt | {
        "model": target.model,
        "prompt": item.prompt if item.prompt is not None else item.token_ids(target.seed),
        "max_tokens": item.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def _take(result: Result, payload: bytes, now: float) -> bool:
    """Book one event; False ends the stream (an error that came as an event)."""
    try:
        event = json.loads(payload)
        error = event.get("error")
        choices = event.get("choices") or []
        known = (event.get("usage") or {}).get("completion_tokens")
        text = "".join(str(choice.get("text") or "") for choice in choices)
    except (ValueError, TypeError, AttributeError, RecursionError):
        result.error = f"stream holds an event that is no completion: {payload[:80].decode(errors='replace')}"
        return False
    if error:
        result.error = f"error in the stream: {_message(payload)}"
        return False
    result.text += text
    if isinstance(known, int) and known > result.output_tokens:
        result.error = f"the server counts {known} tokens, {result.output_tokens} were asked for"
        return False
    # Servers without usage in every chunk: a chunk with text counts as one token.
    new = known - len(result.token_times) if isinstance(known, int) else int(bool(text))
    if choices or known:
        result.token_times.extend([now] * max(0, new))
    return True


def _message(content: bytes) -> str:
    """The sentence of an OpenAI error body, or the start of whatever came."""
    try:
        parsed = json.loads(content)
        message = (
            parsed["error"]["message"] if "error" in parsed else parsed.get("message") or parsed.get("detail")
        )
        return " ".join(str(message).split())[:300]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content[:200].decode(errors="replace").strip() or "no message"


def describe(error: Exception) -> str:
    """A network failure as a short sentence."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {_CONNECT_SECONDS:g} s"
    if isinstance(error, httpx.ConnectError):
        return "connection refused or host unknown"
    if isinstance(error, httpx.TimeoutException):
        return "the server went silent"
    if isinstance(error, httpx.RemoteProtocolError):
        return "the server closed the connection in the middle of an answer"
    return f"{type(error).__name__}: {error}".rstrip(": ")
