"""What a model hub refuses, as the real huggingface_hub and vLLM say it, against a loopback stand-in."""

from __future__ import annotations

import json
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
from tests.ports import free_port
from tests.stand_in_hub import COMMIT, GOOD_TOKEN, LIMITED_SECONDS, Hub


@pytest.fixture(scope="module")
def stand_in() -> Iterator[Hub]:
    server = stand_in_hub.serve(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def endpoint(stand_in: Hub) -> str:
    return f"http://127.0.0.1:{stand_in.server_port}"


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


MODEL = "org/tiny"
PREPARE = """
import json, os, sys, time
from slidingserve.vllm_adapter import hub_start
argv = ["vllm", "serve", *json.loads(sys.argv[1])]
slept = []
clock = float(sys.argv[2])
try:
    hub_start.prepare(argv, sleep=slept.append, now=lambda: clock)
    told = ""
except hub_start.HubError as error:
    told = str(error)
print(json.dumps([told, os.environ.get("HF_HUB_OFFLINE"), argv[3:], [s for s in slept if s]]))
"""


def prepare(
    environment: dict[str, str], *words: str, at: float = 1000.0
) -> tuple[str, str, list[str], list[float]]:
    """What the question to the hub comes to: line, HF_HUB_OFFLINE, arguments after the model, pauses."""
    command = [sys.executable, "-c", PREPARE, json.dumps(words), str(at)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told, offline, argv, slept = json.loads(done.stdout)
    return told, offline, argv, slept


def questions(stand_in: Hub) -> int:
    """How often that model was asked for; huggingface_hub asks for things of its own too."""
    return sum("org/limited" in path for _, path, _ in stand_in.asked)


def away(environment: dict[str, str]) -> dict[str, str]:
    """The same with a hub that nobody listens for."""
    return {**environment, "HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"}


def download(environment: dict[str, str]) -> None:
    """The model into the cache, by huggingface_hub itself."""
    script = f"from huggingface_hub import snapshot_download; snapshot_download({MODEL!r})"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True)


def test_a_hub_that_asks_to_be_left_alone_is_asked_once_and_not_again_before_that_time(
    stand_in: Hub, endpoint: str, tmp_path: Path
) -> None:
    """Also by the next start of the container: its cache outlives it."""
    environment = online(endpoint, tmp_path)
    stand_in.asked.clear()
    told, _, _, slept = prepare(environment, "org/limited")
    assert told == f"hub busy: {endpoint} answered 429 Too Many Requests; again in {LIMITED_SECONDS} s"
    assert (questions(stand_in), slept) == (1, [])
    _, _, _, slept = prepare(environment, "org/limited", at=1100.0)
    assert slept == [LIMITED_SECONDS - 100.0], "the rest of the time, before it asks"
    assert questions(stand_in) == 2
    _, _, _, slept = prepare(environment, "org/limited", at=9000.0)
    assert slept == [], "that time is over"


def test_a_model_that_is_cached_starts_without_a_hub_that_is_busy_or_away(
    stand_in: Hub, endpoint: str, tmp_path: Path, tiny_model: Path
) -> None:
    environment = online(endpoint, tmp_path)
    told, _, _, slept = prepare(away(environment), MODEL)
    assert told.startswith("hub away: http://127.0.0.1:")
    assert len(slept) == 2, "it may have been a moment"
    stand_in.models[MODEL] = tiny_model
    assert prepare(environment, MODEL)[:2] == ("", "0"), "a hub that is there is used"
    download(environment)
    del stand_in.models[MODEL]
    for words in ((MODEL,), (MODEL, "--revision", "main"), (MODEL, "--revision", COMMIT)):
        told, offline, argv, slept = prepare(away(environment), *words)
        assert (told, offline, slept) == ("", "1", [])
        assert argv[-2:] == ["--served-model-name", MODEL], "clients call it as before"
    told, offline, argv, _ = prepare(away(environment), MODEL, "--served-model-name=chat")
    assert (offline, argv) == ("1", ["--served-model-name=chat"])
    assert prepare(away(environment), MODEL, "--revision", "v2")[0].startswith("hub away: ")
    # The snapshot of another repository, which the hub is too busy to serve.
    cache = tmp_path / "hub"
    for before, repository in (("tiny", "failing"), ("failing", "limited")):
        (cache / f"models--org--{before}").rename(cache / f"models--org--{repository}")
        assert prepare(environment, f"org/{repository}")[:2] == ("", "1")
    (weights,) = cache.glob("*/snapshots/*/*.safetensors")
    weights.unlink()
    assert prepare(environment, "org/limited", at=9000.0)[0].startswith("hub busy: "), "it is not there whole"


def test_a_transfer_that_is_cut_goes_on_where_it_was(stand_in: Hub, endpoint: str, tmp_path: Path) -> None:
    """By huggingface_hub itself, which writes in parts of ten megabytes; what we say of it rests on that."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(os.urandom(24 << 20))
    stand_in.models[MODEL] = model
    stand_in.asked.clear()
    stand_in.cuts = 1
    try:
        download({**online(endpoint, tmp_path), "HF_HUB_DISABLE_XET": "1"})
    finally:
        del stand_in.models[MODEL]
    assert stand_in.cuts == 0
    ranges = [span for method, _, span in stand_in.asked if method == "GET" and span]
    assert ranges == ["bytes=10485760-"]
    (weights,) = tmp_path.glob("hub/*/snapshots/*/*.safetensors")
    assert weights.read_bytes() == (model / weights.name).read_bytes()


def test_a_cached_model_is_vllms_without_the_hub(
    stand_in: Hub, endpoint: str, tmp_path: Path, tiny_model: Path
) -> None:
    """Configuration and tokenizer as an engine takes them, and where it finds weights; that it then serves is
    no matter of the hub."""
    environment = online(endpoint, tmp_path)
    stand_in.models[MODEL] = tiny_model
    download(environment)
    del stand_in.models[MODEL]
    script = f"""
import sys
from slidingserve.vllm_adapter import hub_start
hub_start.prepare(argv := ["vllm", "serve", {MODEL!r}])
from vllm.engine.arg_utils import EngineArgs
from vllm.tokenizers import get_tokenizer
arguments = EngineArgs(model={MODEL!r}, max_model_len=64, enforce_eager=True)
model = arguments.create_engine_config().model_config
assert get_tokenizer(model.tokenizer).encode("hello")
print(model.model)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=away(environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    taken = Path(done.stdout.splitlines()[-1])
    assert (taken.name, len(list(taken.glob("*.safetensors")))) == (COMMIT, 1), "vLLM loads from a directory"
