"""vLLM's whole application, without an engine behind it: which of its routes answer whom."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from slidingserve.server.keys import OPEN
from slidingserve.server.launch import MIDDLEWARE

KEY = "sekret"


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    """With every route that vLLM has for a model that generates, those for development included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_SERVER_DEV_MODE", "1")
        patch.setenv("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1")
        patch.setenv("VLLM_PLUGINS", "slidingserve_routes")
        from vllm.entrypoints.launchers.app import build_app
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        arguments = ["--api-key", KEY, "--middleware", MIDDLEWARE, "--enable-tokenizer-info-endpoint"]
        args = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
        yield build_app(args, ("generate", "render"))


def status(app: Any, path: str, method: str) -> int:
    """What a request without a key and without a body gets; 500 for one that looked for an engine."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "http_version": "1.1",
    }
    try:
        asyncio.run(app(scope, receive, send))
    except Exception:
        return 500
    return int(next(message["status"] for message in sent if message["type"] == "http.response.start"))


def routes(app: Any) -> set[tuple[str, str]]:
    """Path and method of each; a mounted application counts as GET."""
    found: set[tuple[str, str]] = set()

    def walk(level: Any, prefix: str) -> None:
        for route in level:
            inner = getattr(route, "original_router", None)
            if inner is not None:  # one that is included as a whole
                walk(inner.routes, prefix + getattr(getattr(route, "include_context", None), "prefix", ""))
            elif getattr(route, "path", None) is not None:
                path = prefix + re.sub(r"\{[^}]*\}", "x", route.path)
                found.update((path, method) for method in getattr(route, "methods", None) or {"GET"})

    walk(app.routes, "")
    return found


def test_every_route_of_vllm_needs_the_key_but_the_open_ones(app: Any) -> None:
    found = routes(app)
    paths = {path for path, _ in found}
    assert {"/invocations", "/tokenize", "/detokenize", "/v1/completions", "/v1/load_lora_adapter"} <= paths
    assert {"/generative_scoring", "/sleep", "/pause", "/docs", "/slidingserve/v1/plan", *OPEN} <= paths
    shut = {(path, method): status(app, path, method) for path, method in found if path not in OPEN}
    assert {key: code for key, code in shut.items() if code != 401} == {}
    assert [path for path in OPEN if status(app, path, "GET") == 401] == []
