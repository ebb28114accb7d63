"""The drain: what the command waits for, and what each API server does while the mark is there."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from slidingserve.cli import app
from slidingserve.server import drain as draining
from slidingserve.server import launch, state
from slidingserve.server.drain import Drain, Drained, DrainError, drain, mark
from slidingserve.server.runtime import Runtime
from typer.testing import CliRunner

Message = dict[str, Any]


class Clock:
    """Time that passes only in `sleep`; `at` says what happens when."""

    def __init__(self) -> None:
        self.now = 100.0
        self.at: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due, act in [pair for pair in self.at if pair[0] <= self.now - 100.0]:
            self.at.remove((due, act))
            act()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("slidingserve.server.drain.time.monotonic", made)
    return made


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Runtime]:
    """A directory that an engine has locked."""
    runtime = Runtime(tmp_path)
    runtime.process_dir.mkdir()
    with (tmp_path / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield runtime


def report(engine: Runtime, index: int, drain: Message | None) -> None:
    labels = {"revision": "r", "generation": 1, "drain": drain}
    state.write(engine.process_dir, state.stamped("api", index, labels))


def lasted(engine: Runtime, clock: Clock, *, wait: float = 10, timeout: float = 60) -> tuple[int, bool]:
    """Whole seconds, and whether the engine was drained then."""
    ended = drain(engine.state_dir, wait=wait, timeout=timeout, clock=clock, sleep=clock.sleep)
    return round(ended.seconds), ended.done


QUIET = {"open": 0, "done": True}
BUSY = {"open": 3, "done": False}


def test_it_ends_when_every_api_server_is_quiet_and_never_before_the_wait(
    engine: Runtime, clock: Clock
) -> None:
    report(engine, 0, QUIET)
    report(engine, 1, QUIET)
    assert lasted(engine, clock) == (10, True)
    report(engine, 1, BUSY)
    clock.now = 100.0
    clock.at = [(25.0, lambda: report(engine, 1, QUIET))]
    assert lasted(engine, clock) == (25, True)


@pytest.mark.parametrize("of_the_other", [None, BUSY])
def test_an_api_server_that_is_frozen_or_busy_holds_it_until_the_timeout_and_no_longer(
    engine: Runtime, clock: Clock, of_the_other: Message | None
) -> None:
    report(engine, 0, QUIET)
    report(engine, 1, of_the_other)
    assert lasted(engine, clock) == (70, False)


def test_it_does_not_wait_for_an_engine_that_never_served_or_is_gone(engine: Runtime, clock: Clock) -> None:
    assert lasted(engine, clock) == (0, True)
    report(engine, 0, BUSY)
    (engine.state_dir / "lock").rename(engine.state_dir / "old")
    (engine.state_dir / "lock").touch()
    with pytest.raises(DrainError, match="no engine runs there"):
        lasted(engine, clock)


def test_an_engine_that_ends_on_the_way_ends_it(engine: Runtime, clock: Clock) -> None:
    report(engine, 0, BUSY)
    clock.at = [(5.0, lambda: (engine.state_dir / "lock").unlink())]
    assert lasted(engine, clock) == (5, True)


def test_a_second_drain_changes_nothing_and_a_cancel_takes_it_back(engine: Runtime, clock: Clock) -> None:
    report(engine, 0, QUIET)
    of_the_server = Drain(engine, {})
    assert of_the_server.report() is None
    for _ in range(2):
        assert lasted(engine, clock, wait=1)[1]
        assert of_the_server.begun
    draining.cancel(engine.state_dir)
    draining.cancel(engine.state_dir)
    assert not of_the_server.begun
    assert of_the_server.report() is None


def test_an_engine_that_starts_again_in_the_same_directory_does_not_drain(tmp_path: Path) -> None:
    Runtime(tmp_path).process_dir.mkdir()
    mark(Runtime(tmp_path)).touch()
    made = launch.prepare("model", [], config_dir=None, state_dir=tmp_path, fallback=False)
    assert not Drain(made.runtime).begun


async def answer(
    server: Drain, *, headers: Any = (), during: Callable[[], None] = lambda: None
) -> dict[bytes, bytes]:
    """The head of a response; `during` happens between it and the end."""
    sent: list[Any] = []

    async def engine(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        during()
        await send({"type": "http.response.body", "body": b"x", "more_body": False})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await server.serve(engine, {"type": "http"}, receive, send)
    assert len(sent) == 2
    return dict(sent[0]["headers"])


async def test_every_response_of_a_drain_closes_its_connection_and_none_before(engine: Runtime) -> None:
    server = Drain(engine, {})
    assert await answer(server, headers=[(b"a", b"b")]) == {b"a": b"b"}
    mark(engine).touch()
    kept = [(b"a", b"b"), (b"Connection", b"keep-alive")]
    assert await answer(server, headers=kept) == {b"a": b"b", b"connection": b"close"}


async def test_it_is_quiet_when_no_connection_can_bring_a_request_any_more(
    engine: Runtime, clock: Clock
) -> None:
    server = Drain(engine, {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "20"})
    mark(engine).touch()
    assert server.report() == {"open": 0, "done": False}, "a client may have a connection open"
    clock.now += 21.1
    assert server.report() == {"open": 0, "done": True}
    running: list[Any] = []
    await answer(server, during=lambda: running.append(server.report()))
    assert running == [{"open": 1, "done": False}]
    assert server.report() == {"open": 0, "done": True}, "this one was closed with its response"


async def test_a_stream_from_before_the_drain_leaves_a_connection_that_may_bring_one_more(
    engine: Runtime, clock: Clock
) -> None:
    server = Drain(engine, {})

    def begins_and_lasts_a_minute() -> None:
        mark(engine).touch()
        server.report()
        clock.now += 60

    await answer(server, during=begins_and_lasts_a_minute)
    clock.now += 5.5
    assert server.report() == {"open": 0, "done": False}
    clock.now += 0.6
    assert server.report() == {"open": 0, "done": True}


async def test_a_request_that_fails_is_not_open_for_ever(engine: Runtime, clock: Clock) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("no")

    server = Drain(engine, {})
    mark(engine).touch()
    with pytest.raises(RuntimeError, match="no"):
        await server.serve(fails, {"type": "http"}, None, None)  # type: ignore[arg-type]
    assert server.report() == {"open": 0, "done": False}
    clock.now += 6.1
    assert server.report() == {"open": 0, "done": True}


def test_the_command_says_how_it_ended_by_line_and_status(engine: Runtime) -> None:
    def run(*options: str) -> tuple[int, str]:
        words = ["drain", "--state-dir", str(engine.state_dir), *options]
        ended = CliRunner().invoke(app, words)
        return ended.exit_code, ended.output

    report(engine, 0, QUIET)
    assert run("--wait", "0") == (0, "slidingserve: drained in 0.0 s: no request is open\n")
    report(engine, 0, BUSY)
    status, line = run("--wait", "0", "--timeout", "0")
    assert (status, line.count("\n")) == (1, 1)
    assert "3 requests are open" in line
    assert run("--cancel") == (0, "")
    assert not mark(engine).exists()
    (engine.state_dir / "lock").unlink()
    status, line = run()
    assert (status, line.count("\n")) == (2, 1)
    assert "no engine runs there" in line


def test_where_no_mark_can_be_left_that_is_told(engine: Runtime) -> None:
    engine.process_dir.rmdir()
    with pytest.raises(DrainError, match="drain as the engine's user"):
        drain(engine.state_dir, wait=0, timeout=0)


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (Drained(1, 0, True), "drained in 1.0 s: no request is open"),
        (Drained(1, 1, False), "not drained within 1.0 s: 1 request is open and will be cut"),
        (Drained(1, 3, False), "not drained within 1.0 s: 3 requests are open and will be cut"),
        (
            Drained(1, 0, False),
            "not drained within 1.0 s: no request is open, but clients may still use connections that they"
            " keep; give it more time",
        ),
        (
            Drained(1, 0, False, silent=1),
            "not drained within 1.0 s: 1 API server has not reported, and what is open there will be cut",
        ),
        (
            Drained(1, 1, False, silent=2),
            "not drained within 1.0 s: 1 request is open and will be cut; 2 API servers have not reported,"
            " and what is open there will be cut",
        ),
        (
            Drained(2, 0, True, gone=True),
            "the engine ended by itself after 2.0 s: there is nothing left to drain",
        ),
    ],
)
def test_the_line_says_what_is_so(ended: Drained, line: str) -> None:
    assert str(ended) == line


def test_a_drain_that_runs_out_of_time_with_nothing_open_cuts_nothing(engine: Runtime, clock: Clock) -> None:
    report(engine, 0, {"open": 0, "done": False})
    ended = drain(engine.state_dir, wait=0, timeout=0, clock=clock, sleep=clock.sleep)
    assert "cut" not in str(ended)
    report(engine, 0, None)
    assert "1 API server has not reported" in str(
        drain(engine.state_dir, wait=0, timeout=0, clock=clock, sleep=clock.sleep)
    )
