"""The command line: exit status, one clear line, a result file that a program can read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from slidingserve.bench.command import bench_command
from slidingserve.cli import app as slidingserve
from typer.testing import CliRunner, Result

from tests.unit.bench.server import Behave, FakeServer, serving

app = typer.Typer()
app.command()(bench_command)


@contextmanager
def threaded(behave: Behave) -> Iterator[FakeServer]:
    """The scripted server on a loop of its own, since the command runs its own."""
    ready = threading.Event()
    box: list[FakeServer] = []
    hooks: list[Callable[[], object]] = []

    async def main() -> None:
        stop = asyncio.Event()
        async with serving(behave) as server:
            loop = asyncio.get_running_loop()
            box.append(server)
            hooks.append(lambda: loop.call_soon_threadsafe(stop.set))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(10)
    try:
        yield box[0]
    finally:
        hooks[0]()
        thread.join(10)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_a_run_prints_the_table_and_writes_seed_and_rows(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "result.json"
    with threaded(
        lambda body, headers: "500" if headers["x-slo-class"] == "summarization" else "ok"
    ) as server:
        done = run(
            "--url", server.url, "--requests", "10", "--rate", "200", "--seed", "5",
            "--slo", "dialogue=5000/1000", "--slo", "summarization=5000/1000", "--output", str(output),
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "8 of 10 requests" in done.output
    assert "2 x 500: refused with 500" in done.output
    content = json.loads(output.read_text())
    assert (content["config"]["seed"], content["config"]["model"]) == (5, "fake")
    by_name = {row["slo_class"]: row for row in content["classes"]}
    assert by_name["dialogue"]["attainment"] == 1.0
    assert by_name["summarization"]["attainment"] == 0.0
    assert set(by_name["dialogue"]["ttft_ms"]) == {"p50", "p95", "p99"}
    assert len(content["requests"]) == 10


def test_nothing_succeeded_is_a_non_zero_exit_with_a_line() -> None:
    with threaded(lambda body, headers: "429") as server:
        done = run("--url", server.url, "--requests", "4", "--rate", "100")
    assert done.exit_code == 1
    assert "none of 4 requests succeeded" in done.output
    assert "Traceback" not in done.output


def test_no_server_is_a_line_and_not_a_traceback() -> None:
    with threaded(lambda body, headers: "ok") as server:
        url = server.url
    done = run("--url", url)
    assert done.exit_code == 1
    assert "connection refused" in done.output
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--url", "nonsense"), "http://HOST:PORT/v1"),
        (("--url", "http://x/v1", "--workload", "absent.jsonl"), "absent.jsonl: cannot be read"),
        (("--url", "http://x/v1", "--workload", "mystery"), "two-class"),
        (("--url", "http://x/v1", "--slo", "a=1"), "CLASS=TTFT_MS/TBT_MS"),
        (("--url", "http://x/v1", "--rate", "0"), "--rate 0"),
    ],
)
def test_arguments_that_cannot_be_used_exit_2_and_say_what_to_write(
    arguments: tuple[str, ...], says: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_the_exit_status_survives_the_slidingserve_command() -> None:
    done = CliRunner().invoke(slidingserve, ["bench", "--url", "nonsense"])
    assert done.exit_code == 2
    assert "http://HOST:PORT/v1" in done.output
