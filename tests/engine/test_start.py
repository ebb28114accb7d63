"""Starts that the gate refuses or a signal ends, and the fallback, on real vLLM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from slidingserve import hardware

from tests.engine.served import ARGUMENTS, start, wait
from tests.namespaces import IPV6_ALONE, run


def test_an_engine_that_cannot_be_planned_is_refused_in_one_line(tiny_model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slidingserve.cli", "serve", str(tiny_model), *ARGUMENTS, "--port", "0"]
    command += ["--state-dir", str(tmp_path / "state"), "--no-enable-chunked-prefill"]
    command += ["--max-num-batched-tokens", "2048"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 2
    ours = [line for line in result.stderr.splitlines() if "slidingserve: " in line]
    assert len(ours) == 1
    assert "drop --no-enable-chunked-prefill" in ours[0]
    assert "--fallback" in ours[0]
    assert "Traceback" not in result.stderr


def test_an_engine_that_is_stopped_while_it_starts_hears_it(tmp_path: Path) -> None:
    """In a container it is the first process, whose default for SIGTERM is to ignore it: it must not be left
    at that until vLLM is imported, or the pod and its accelerators stay for the whole grace period."""
    command = [sys.executable, "-m", "slidingserve.cli", "serve", "--emulate", hardware.names()[0]]
    command += ["--state-dir", str(tmp_path / "state"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait(lambda: (tmp_path / "state" / "emulated").exists(), "it has begun", 120)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, "by a handler of its own"
    assert "Traceback" not in said


def test_the_fallback_serves_with_vllms_own_scheduler_and_says_so(tmp_path: Path) -> None:
    arguments = ("--emulate", hardware.names()[0], "--fallback", "--scheduling-policy", "priority")
    # No model to load: a process less to start.
    engine = start(Path("tiny"), tmp_path, *arguments, "--log-json")
    try:
        state = engine.state()
        assert "--scheduling-policy priority" in state["fallback"]["reason"]
        assert state["policy"] == "fcfs"
        assert state["applied"]["generation"] == 1, "the promises of the file hold all the same"
        assert engine.metric("fallback", engine="0") == 1
        assert engine.complete("hello", headers={"x-slo-class": "nope"}).status_code == 400
        assert engine.complete("hello").status_code == 200
        assert engine.state()["classes"]["dialogue"]["good"] == 1
    finally:
        engine.stop()
    every_record_is_json(engine.log.read_text())


def every_record_is_json(log: str) -> None:
    """What vLLM's processes log by --log-json; PyTorch's own lines stay as they are."""
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"APIServer", "EngineCore"} <= {record.get("process") for record in records}
    assert any(record["message"].startswith("fallback to vLLM's own") for record in records), "ours"
    assert any(record["logger"] == "uvicorn.error" for record in records)
    others = [line for line in log.splitlines() if not line.startswith("{")]
    assert [line for line in others if "INFO" in line or "WARNING" in line] == []


IN_THE_NAMESPACE = """
import json, signal, subprocess, sys, time, urllib.request
def ask(path, body=None):
    request = urllib.request.Request(f"http://[::1]:8000{path}", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())
engine = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
while engine.poll() is None:
    try:
        ask("/slidingserve/v1/ready")
        break
    except OSError:
        time.sleep(0.2)
body = {"model": "tiny", "prompt": "hello", "max_tokens": 8}
text = ask("/v1/completions", json.dumps(body).encode())["choices"][0]["text"]
engine.send_signal(signal.SIGTERM)
print(len(text), engine.wait(60))
"""


def test_an_engine_serves_where_there_is_ipv6_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slidingserve.cli", "serve", "tiny", "--emulate", hardware.names()[0]]
    command += ["--state-dir", str(tmp_path / "state"), "--calibration-seconds", "0"]
    with (tmp_path / "log").open("w") as log:
        said = run(IPV6_ALONE, [sys.executable, "-c", IN_THE_NAMESPACE, *command], stderr=log, timeout=400)
    assert said == "8 0\n", (tmp_path / "log").read_text()[-3000:]


def test_pipeline_parallel_is_refused_and_with_the_fallback_goes_on_under_vllms_own_scheduler(
    tiny_model: Path, tmp_path: Path
) -> None:
    """To the decision, not to a token: vLLM's CPU build cannot run two stages."""
    command = [sys.executable, "-m", "slidingserve.cli", "serve", str(tiny_model), *ARGUMENTS, "--port", "0"]
    command += ["--pipeline-parallel-size", "2"]
    refused = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "refused")], capture_output=True, text=True, timeout=240
    )
    assert refused.returncode == 2
    ours = [line for line in refused.stderr.splitlines() if "slidingserve: " in line]
    assert len(ours) == 1
    assert "pipeline parallel overlaps batches" in ours[0]
    assert "or start with --fallback" in ours[0]
    said = tmp_path / "said"
    with said.open("w") as out:
        process = subprocess.Popen(
            [*command, "--state-dir", str(tmp_path / "state"), "--fallback"], stdout=out, stderr=out
        )
    try:
        line = "fallback to vLLM's own scheduler: pipeline parallel overlaps batches"
        wait(lambda: line in said.read_text(), "it steps back", 240)
    finally:
        process.kill()
        process.wait()
