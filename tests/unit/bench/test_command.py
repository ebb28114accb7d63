"""The command line: exit status, one clear line, a result file that a program can read."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer
from slidingserve.bench import report
from slidingserve.bench.command import bench_command
from slidingserve.cli import app as slidingserve
from typer.testing import CliRunner, Result

from tests.unit.bench.server import threaded

app = typer.Typer()
app.command()(bench_command)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_a_run_prints_the_table_and_writes_seed_and_rows(tmp_path: Path) -> None:
    output = tmp_path / "deep" / "result.json"
    with threaded(
        lambda body, headers: "500" if headers["x-slo-class"] == "summarization" else "ok"
    ) as server:
        done = run(
            "--url", server.url, "--requests", "10", "--rate", "200", "--seed", "5",
            "--slo", "dialogue=5s/1s", "--slo", "summarization=5s/1s", "--output", str(output),
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
        (("--url", "http://x/v1", "--slo", "a=1"), "CLASS=TTFT/TBT"),
        (("--url", "http://x/v1", "--rate", "0"), "--rate 0"),
        (("--url", "http://x/v1", "--workload", "mixed_v1"), "--qps 1.5"),
        (("--url", "http://x/v1", "--workload", "mixed_v1", "--qps", "0"), "qps 0.0"),
        (("--url", "http://x/v1", "--slo", "dialogue=5x/40"), "hardware profile"),
        (("--url", "http://x/v1", "--solo", "abacus"), "abacus"),
        (("--url", "http://x/v1", "--solo", "absent.csv"), "absent.csv: cannot be read"),
        (("--url", "http://x/v1", "--column", "x"), "--column"),
    ],
)
def test_arguments_that_cannot_be_used_exit_2_and_say_what_to_write(
    arguments: tuple[str, ...], says: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_a_result_that_cannot_be_written_is_refused_before_the_first_request(tmp_path: Path) -> None:
    with threaded(lambda body, headers: "ok") as server:
        done = run("--url", server.url, "--output", str(tmp_path))
        assert server.seen == []
    assert done.exit_code == 2
    assert f"slidingserve bench: --output {tmp_path}: cannot be written (Is a directory)" in done.output


def test_a_result_that_a_full_disk_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report, "write", full)
    with threaded(lambda body, headers: "ok") as server:
        done = run(
            "--url", server.url, "--requests", "2", "--rate", "100", "--output", str(tmp_path / "o.json")
        )
    assert done.exit_code == 1
    assert "o.json: cannot be written (No space left on device)" in done.output


def test_the_exit_status_survives_the_slidingserve_command() -> None:
    done = CliRunner().invoke(slidingserve, ["bench", "--url", "nonsense"])
    assert done.exit_code == 2
    assert "http://HOST:PORT/v1" in done.output


def test_a_named_workload_is_judged_by_slowdowns_of_a_table_of_solo_times(tmp_path: Path) -> None:
    table = tmp_path / "solo.csv"
    table.write_text("prompt_tokens,seconds\n0,10\n10000,110\n")
    output = tmp_path / "result.json"
    with threaded(lambda body, headers: "ok") as server:
        done = run(
            "--url", server.url, "--workload", "mixed_v1", "--requests", "20", "--qps", "1000",
            "--solo", str(table), "--output", str(output),
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    content = json.loads(output.read_text())
    for row in content["requests"]:
        slowdown = {"dialogue": 5, "summarization": 10}[row["slo_class"]]
        assert row["promise"]["ttft"] == pytest.approx(slowdown * (10 + row["prompt_tokens"] / 100))
        assert len(row["token_times"]) == row["output_tokens"]
        assert row["missed_ttft"] is False
    assert content["overall"]["promised"] == content["summary"]["completed"] == 20
    assert content["overall"]["interval"][1] == 1.0
    assert "requests/s that kept their promise" in done.output


def test_a_file_is_replayed_and_its_bad_rows_are_told(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("arrival,prompt_tokens,output_tokens\n0,5,2\n0.01,,2\n0.02,5,2\n")
    with threaded(lambda body, headers: "ok") as server:
        done = run("--url", server.url, "--workload", str(path))
        assert all("x-slo-class" not in headers for _, headers in server.seen)
    assert done.exit_code == 0, done.output
    assert "2 of 3 rows used" in done.output
    assert "line 3: prompt_tokens: missing" in done.output


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, number: int, status: int) -> None:
    output, answered = tmp_path / "result.json", threading.Semaphore(0)

    def answer(body: object, headers: object) -> str:
        answered.release()
        return "ok"

    with threaded(answer) as server:
        # One at a time: when the fourth comes, three have ended.
        arguments = ["--url", server.url, "--requests", "5000", "--rate", "20", "--concurrency", "1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "slidingserve.cli", "bench", *arguments, "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(4):
            assert answered.acquire(timeout=120)
        process.send_signal(number)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == status, said
    assert "of 5000 requests had ended" in said
    assert "Traceback" not in said
    assert 3 <= len(json.loads(output.read_text())["requests"]) < 5000
