"""The door: refusals before anything is queued, and a request watched to its end. A real ASGI exchange, no
network."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from slidingserve.config import EngineConfig
from slidingserve.server import frontend
from slidingserve.server.attainment import CURRENT, Counts
from slidingserve.server.delivery import Delivery
from slidingserve.server.drain import Drain, mark
from slidingserve.server.middleware import PromiseMiddleware
from slidingserve.server.promise import Promise
from slidingserve.server.runtime import Runtime

Counted = Callable[..., float]
Message = MutableMapping[str, Any]
PATH = "/v1/chat/completions"


class Front:
    def __init__(self, config: EngineConfig, state_dir: Path) -> None:
        self.config = config
        self.counts = Counts()
        self.delivery = Delivery()
        self.drain = Drain(Runtime(state_dir))


@pytest.fixture(autouse=True)
def front(config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Front:
    made = Front(config, tmp_path)
    monkeypatch.setattr(frontend, "_current", made)
    return made


def scope(path: str = PATH, method: str = "POST", **headers: str) -> Message:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": pairs}


class Engine:
    """The application behind the middleware: accepts a request, streams `parts`, then ends or breaks off."""

    def __init__(
        self, parts: int = 2, *, status: int = 200, breaks: bool = False, leave: bool = False
    ) -> None:
        self.parts, self.status, self.breaks, self.leave = parts, status, breaks, leave
        self.calls = 0

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        self.calls += 1
        tracker = CURRENT.get()
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        if tracker is None or self.status != 200:
            await send({"type": "http.response.start", "status": self.status, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
            return
        sequence = tracker.start(Promise(tracker.slo_class, 60, 60))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(self.parts):
            tracker.generated(sequence, 1)
            await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
        if self.leave:
            await receive()
            return
        if self.breaks:
            raise RuntimeError("the stream broke")
        sequence.ended_well = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        await receive()  # servers say "disconnect" now, too


async def exchange(app: Any, request: Message) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await PromiseMiddleware(app)(request, receive, send)
    return sent


async def test_nonsense_is_a_400_in_openai_form_before_the_engine_sees_it(counted: Counted) -> None:
    engine = Engine()
    start, body = await exchange(engine, scope(x_slo_class="nope"))
    assert start["status"] == 400
    error = json.loads(body["body"])["error"]
    assert error["type"] == "BadRequestError"
    assert (error["param"], error["code"]) == ("x-slo-class", 400)
    assert "dialogue" in error["message"]
    assert engine.calls == 0
    assert counted("requests_total", slo_class="dialogue") == 0


async def test_a_finished_stream_counts_once_and_as_no_disconnect(counted: Counted) -> None:
    await exchange(Engine(), scope(x_slo_class="batch"))
    assert counted("requests_total", slo_class="batch") == 1
    assert counted("slo_good_total", slo_class="batch", objective="request") == 1
    assert counted("client_disconnects_total", slo_class="batch") == 0


async def test_a_client_that_leaves_mid_stream_is_a_disconnect(counted: Counted) -> None:
    await exchange(Engine(leave=True), scope())
    assert counted("client_disconnects_total", slo_class="dialogue") == 1
    assert counted("slo_good_total", slo_class="dialogue", objective="request") == 0
    assert counted("slo_violations_total", slo_class="dialogue", objective="request") == 0


async def test_a_stream_that_fails_is_a_miss_and_the_error_goes_on(counted: Counted) -> None:
    with pytest.raises(RuntimeError, match="broke"):
        await exchange(Engine(breaks=True), scope())
    assert counted("slo_violations_total", slo_class="dialogue", objective="request") == 1


async def test_overload_counts_as_a_miss_of_the_class_that_was_asked_for(counted: Counted) -> None:
    await exchange(Engine(status=429), scope(x_slo_class="batch"))
    assert counted("slo_violations_total", slo_class="batch", objective="request") == 1


@pytest.mark.parametrize(("path", "method"), [("/metrics", "POST"), (PATH, "GET"), ("/v1/models", "GET")])
async def test_other_requests_pass_unwatched(path: str, method: str, counted: Counted) -> None:
    engine = Engine()
    await exchange(engine, scope(path, method, x_slo_class="nope"))
    assert engine.calls == 1
    assert counted("requests_total", slo_class="dialogue") == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions/batch", "/v1/messages", "/cohere/v2/chat"])
async def test_every_way_to_generate_passes_the_door(path: str) -> None:
    engine = Engine()
    start, _ = await exchange(engine, scope(path, x_slo_class="nope"))
    assert (start["status"], engine.calls) == (400, 0)


async def test_no_request_leaks_into_the_next_task() -> None:
    await exchange(Engine(), scope())
    assert CURRENT.get() is None


@pytest.mark.parametrize(("path", "method"), [(PATH, "POST"), ("/v1/models", "GET")])
@pytest.mark.parametrize("asked", ["dialogue", "nope"])
async def test_in_a_drain_every_response_closes_its_connection_refusals_too(
    path: str, method: str, asked: str, tmp_path: Path
) -> None:
    mark(Runtime(tmp_path)).parent.mkdir()
    mark(Runtime(tmp_path)).touch()
    sent = await exchange(Engine(), scope(path, method, x_slo_class=asked))
    assert (b"connection", b"close") in sent[0]["headers"]


def total(counted: Counted) -> dict[str, float]:
    """What was counted of the default class."""
    kept = {"good": "slo_good_total", "missed": "slo_violations_total"}
    found = {
        name: counted(metric, slo_class="dialogue", objective="request") for name, metric in kept.items()
    }
    names = {"requests": "requests_total", "ttft": "ttft_seconds_count", "tbt": "tbt_seconds_count"}
    return found | {name: counted(metric, slo_class="dialogue") for name, metric in names.items()}


NOTHING = dict.fromkeys(("requests", "good", "missed", "ttft", "tbt"), 0)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
async def test_a_refusal_is_no_request_even_if_a_part_of_it_was_accepted(
    counted: Counted, status: int
) -> None:
    """As for {"prompt": [[1], []]}: the first prompt is queued before the second is looked at."""

    async def app(scope: Message, receive: Any, send: Any) -> None:
        tracker = CURRENT.get()
        assert tracker is not None
        sequence = tracker.start(Promise("dialogue", 60, 60))
        tracker.generated(sequence, 1)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    await exchange(app, scope())
    assert total(counted) == NOTHING


async def test_a_refusal_in_an_event_of_the_stream_is_none_either(counted: Counted) -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        tracker = CURRENT.get()
        assert tracker is not None
        tracker.start(Promise("dialogue", 60, 60))
        tracker.refused = True
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: {error}"})

    await exchange(app, scope())
    assert total(counted) == NOTHING


async def test_an_error_before_anything_is_queued_is_a_miss(counted: Counted) -> None:
    """The server's 500 is sent outside of all middleware: here there is an exception and no response."""

    async def app(scope: Message, receive: Any, send: Any) -> None:
        raise KeyError("function")

    with pytest.raises(KeyError):
        await exchange(app, scope())
    assert total(counted) == {**NOTHING, "requests": 1, "missed": 1}


async def test_a_client_that_left_before_it_had_sent_its_request_made_none(counted: Counted) -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.disconnect"
        raise RuntimeError("the client is gone")

    with pytest.raises(RuntimeError):
        await exchange(app, scope())
    assert total(counted) == NOTHING


async def test_what_generates_nothing_for_its_client_is_not_counted_and_has_no_times(
    counted: Counted,
) -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        tracker = CURRENT.get()
        assert tracker is not None
        tracker.promised = False
        await Engine()(scope, receive, send)

    await exchange(app, scope())
    assert counted("requests_total", slo_class="dialogue") == 0


async def test_a_far_deadline_is_counted_as_clamped_once_a_request(counted: Counted) -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        tracker = CURRENT.get()
        assert tracker is not None
        for _ in range(3):
            tracker.start(Promise("dialogue", 60, 60, clamped=True)).ended_well = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    await exchange(app, scope())
    assert counted("deadlines_clamped_total", slo_class="dialogue") == 1
