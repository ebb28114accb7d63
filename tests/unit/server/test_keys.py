"""The API key at the door: what stands open, and that the key is read as vLLM reads it."""

from __future__ import annotations

import asyncio
import json
import re
from argparse import Namespace
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve.server import frontend
from slidingserve.server.keys import OPEN
from slidingserve.server.middleware import PromiseMiddleware

Message = MutableMapping[str, Any]
KEY = "sekret"


@pytest.fixture(autouse=True)
def _no_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before vLLM has handed over its engine: the key is asked for then, too."""
    monkeypatch.setattr(frontend, "_current", None)
    monkeypatch.delenv("VLLM_API_KEY", raising=False)


def knock(
    path: str,
    authorization: str | None = None,
    *,
    method: str = "POST",
    kind: str = "http",
    root: str = "",
    keys: list[str] | None = None,
) -> list[Message]:
    """What a server with these keys sends; "through" alone where the request reaches the application."""
    sent: list[Message] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        sent.append({"type": "through"})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    args = Namespace(api_key=[KEY] if keys is None else keys)
    scope: Message = {"type": kind, "path": path, "root_path": root, "headers": []}
    scope["app"] = SimpleNamespace(state=SimpleNamespace(args=args))
    if kind == "http":
        scope["method"] = method
    if authorization is not None:
        scope["headers"] = [(b"authorization", authorization.encode("latin-1"))]
    asyncio.run(PromiseMiddleware(app)(scope, receive, send))
    return sent


def through(*args: Any, **options: Any) -> bool:
    return [message["type"] for message in knock(*args, **options)] == ["through"]


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (None, False),
        ("", False),
        ("sekret", False),
        ("Basic sekret", False),
        ("Bearer", False),
        ("Bearer sekret ", False),
        ("Bearer  sekret", False),
        ("Bearer sekre", False),
        ("Bearer sekret", True),
        ("bearer sekret", True),
        ("BEARER sekret", True),
    ],
)
def test_the_key_is_a_bearer_token_whatever_the_case_of_the_scheme(
    authorization: str | None, admitted: bool
) -> None:
    for path in ("/slidingserve/v1/plan", "/v1/completions", "/invocations"):
        assert through(path, authorization) == admitted


def test_without_it_the_answer_says_what_to_send() -> None:
    start, body = knock("/invocations")
    assert start["status"] == 401
    assert (b"www-authenticate", b"Bearer") in start["headers"]
    assert "Bearer KEY" in json.loads(body["body"])["error"]["message"]


@pytest.mark.parametrize("path", OPEN)
def test_what_probes_and_monitoring_read_is_open(path: str) -> None:
    assert through(path, method="GET")
    assert through(f"/engine{path}", method="GET", root="/engine")


@pytest.mark.parametrize(
    "path",
    [
        "//v1/completions",
        "/v1%2fcompletions",
        "/V1/completions",
        "/tokenize",
        "/tokenize/",
        "/health/../v1/completions",
        "/health%2f..%2finvocations",
        "/healthy",
        "/metrics/x",
        "/docs",
        "/",
        "",
        "/a/route/of/a/later/version",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_every_other_path_is_shut_however_it_is_written(path: str, method: str) -> None:
    assert not through(path, method=method)


def test_a_preflight_of_a_browser_needs_no_key() -> None:
    assert through("/v1/completions", method="OPTIONS")


@pytest.mark.parametrize("root", ["/engine", "/health", "/v1"])
def test_a_path_below_the_servers_root_is_read_as_its_router_reads_it(root: str) -> None:
    assert not through(f"{root}/invocations", root=root)
    assert not through("/invocations", root=root)
    assert not through(root, root=root)


def test_a_web_socket_without_the_key_is_closed_before_it_is_accepted() -> None:
    assert [message["type"] for message in knock("/v1/realtime", kind="websocket")] == ["websocket.close"]
    assert through("/v1/realtime", f"Bearer {KEY}", kind="websocket")


def test_the_key_of_the_environment_counts_where_no_argument_gives_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert through("/invocations", keys=[])
    monkeypatch.setenv("VLLM_API_KEY", "other")
    assert not through("/invocations", keys=[])
    assert through("/invocations", "Bearer other", keys=[])
    assert not through("/invocations", "Bearer other")


@given(st.text(st.characters(max_codepoint=255), max_size=20), st.text(max_size=20))
@settings(deadline=None)
def test_no_header_but_the_key_opens_anything(authorization: str, path: str) -> None:
    shut = path.rstrip("/") not in OPEN
    right = authorization.partition(" ")[0].lower() == "bearer" and authorization.partition(" ")[2] == KEY
    assert through(path, authorization) == (right or not shut)


def test_the_reference_lists_what_is_open() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/engine.md").read_text()
    listed = page.split("<!-- open paths -->\n")[1].split("\n\n")[0]
    assert tuple(re.findall(r"`([^`]+)`", listed)) == OPEN
