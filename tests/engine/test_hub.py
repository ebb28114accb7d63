"""What a model hub refuses, as the real huggingface_hub and vLLM say it, against a loopback stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from slidingserve.vllm_adapter import hub

from tests import stand_in_hub
from tests.engine.served import ARGUMENTS
from tests.stand_in_hub import GOOD_TOKEN


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = stand_in_hub.serve(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def online(endpoint: str, home: Path) -> dict[str, str]:
    """The environment of a process for which the stand-in is the hub, and which has no token."""
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    environment.pop("HF_TOKEN", None)
    return environment


@pytest.mark.parametrize(
    ("model", "token", "line"),
    [
        ("org/absent", None, "model not found: {hub} shows no org/absent (401: Invalid username or password"),
        ("org/absent", GOOD_TOKEN, "model not found: {hub} shows no org/absent (404: Repository not found)"),
        ("org/no-such-revision", None, "model not found: org/no-such-revision on {hub} has no such revision"),
        ("org/gated", None, "token missing: org/gated on {hub} is gated (401: Access to model org/gated is"),
        ("org/gated", GOOD_TOKEN, "token refused: org/gated on {hub} is not open to this token (403: Access"),
        ("org/gated", "hf_wrong", "token refused: {hub} does not know the token (401: Invalid credentials"),
    ],
)
def test_a_refusal_is_one_line_that_names_model_and_remedy(
    endpoint: str, tmp_path: Path, model: str, token: str | None, line: str
) -> None:
    """Through huggingface_hub alone: what wraps its error above is in the whole engine's test."""
    script = f"""
from huggingface_hub import hf_hub_download
from slidingserve.vllm_adapter import hub
try:
    hf_hub_download({model!r}, "config.json", token={token or False!r}, cache_dir={str(tmp_path)!r})
except Exception as error:
    print(hub.explain(error, {model!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=online(endpoint, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    (told,) = done.stdout.splitlines()
    assert told.startswith(line.format(hub=endpoint))


def test_another_fault_is_not_taken_for_the_hubs() -> None:
    assert hub.explain(ValueError("no room for the KV cache"), "org/model") == ""


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert hub.explain(ValueError("any"), str(absent)).startswith(f"model not found: there is no {absent}")
    assert hub.explain(ValueError("any"), str(tmp_path)) == ""


def test_the_whole_engine_ends_with_that_line(endpoint: str, tmp_path: Path) -> None:
    """transformers and vLLM make "a specific connection error" and a page of traceback of it."""
    command = [sys.executable, "-m", "slidingserve.cli", "serve", "org/gated", *ARGUMENTS, "--port", "0"]
    command += ["--state-dir", str(tmp_path / "state")]
    done = subprocess.run(
        command, env=online(endpoint, tmp_path), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"slidingserve: token missing: org/gated on {endpoint} is gated (401: ")
    assert last.endswith("give a token that may read it (HF_TOKEN)")
