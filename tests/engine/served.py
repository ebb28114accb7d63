"""A `slidingserve serve` process under test: started once, watched from the outside only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.ports import free_port

CLASSES = [
    {"name": "dialogue", "ttftMilliseconds": 20_000, "tbtMilliseconds": 2_000},
    {"name": "strict", "ttftMilliseconds": 0.001, "tbtMilliseconds": 0.001},
    {"name": "slow", "ttftSlowdown": 500, "tbtMilliseconds": 5_000},
]
ARGUMENTS = (
    *("--served-model-name", "tiny", "--host", "127.0.0.1", "--enforce-eager"),
    *("--max-model-len", "2048", "--max-num-seqs", "16", "--max-num-batched-tokens", "256"),
)
START_SECONDS = 400.0


@dataclass
class Served:
    """A running engine and its configuration directory."""

    process: subprocess.Popen[bytes]
    port: int
    config_dir: Path
    state_dir: Path
    log: Path
    seen_before_ready: list[tuple[int, str]] = field(default_factory=list)
    """Status and reason of the ready endpoint until it was 200 the first time."""
    log_when_ready: str = ""
    """What the engine had printed when it was."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=30)

    def state(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.get("/slidingserve/v1/state").json()
        return answer

    def complete(
        self, prompt: str | list[int], tokens: int = 8, headers: Any = None, **body: Any
    ) -> httpx.Response:
        document = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, **body}
        return httpx.post(self.url + "/v1/completions", json=document, headers=headers, timeout=60)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the series of ours that have these labels, 0 if there are none."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == "slidingserve_" + name and all(
                f'{key}="{wanted}"' in series for key, wanted in labels.items()
            ):
                total += float(value)
        return total

    def configure(self, **changes: Any) -> dict[str, Any]:
        """Write the next generation of the configuration, as a mounted ConfigMap changes; returns it."""
        document = write_config(self.config_dir, **changes)
        wait(lambda: self.state()["applied"]["generation"] == document["generation"], "the change is applied")
        return document

    def stop(self) -> None:
        """End the engine as Kubernetes does."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


def write_config(directory: Path, *, classes: Any = None, **scheduler: Any) -> dict[str, Any]:
    """Write slidingserve.json through the links of a ConfigMap volume, one generation above what is there."""
    file = directory / "slidingserve.json"
    generation = json.loads(file.read_text())["generation"] + 1 if file.exists() else 1
    document = {
        "schemaVersion": 1,
        "revision": f"{generation:012x}",
        "generation": generation,
        "classes": classes or CLASSES,
        "defaultClass": "dialogue",
        "scheduler": scheduler,
    }
    target = directory / f"..{generation}"
    target.mkdir()
    (target / "slidingserve.json").write_text(json.dumps(document))
    (directory / "..tmp").symlink_to(target.name)
    (directory / "..tmp").replace(directory / "..data")
    if not file.is_symlink():
        file.symlink_to("..data/slidingserve.json")
    return document


def start(model: Path, directory: Path, *arguments: str) -> Served:
    """Start an engine on a free port and wait until it is ready; what it said on the way is kept."""
    config_dir = directory / "config"
    config_dir.mkdir()
    write_config(config_dir)
    port = free_port()
    command = [sys.executable, "-m", "slidingserve.cli", "serve", str(model), *ARGUMENTS, "--port", str(port)]
    command += ["--slo-config", str(config_dir), "--state-dir", str(directory / "state")]
    command += ["--profile-dir", str(directory / "profiles"), *arguments]
    log = directory / "engine.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    engine = Served(process, port, config_dir, directory / "state", log)
    try:
        wait(lambda: _ready(engine), "the engine is ready", START_SECONDS)
    except BaseException:
        engine.stop()
        raise
    return engine


def _ready(engine: Served) -> bool:
    if engine.process.poll() is not None:
        raise AssertionError(f"the engine ended:\n{engine.log.read_text()[-4000:]}")
    try:
        answer = engine.get("/slidingserve/v1/ready")
    except httpx.TransportError:
        return False
    if answer.status_code != 200:
        engine.seen_before_ready.append((answer.status_code, answer.json()["reason"]))
    else:
        engine.log_when_ready = engine.log.read_text()
    return answer.status_code == 200


def ends_with_its_killed_core(engine: Served) -> None:
    """Kill its core as the kernel does that runs out of memory, and see that status and last line say so."""
    core = next(int(process["pid"]) for process in engine.state()["processes"] if process["role"] == "core")
    os.kill(core, signal.SIGKILL)
    assert engine.process.wait(120) == 1
    last = engine.log.read_text().splitlines()[-1]
    assert last.startswith("slidingserve: the engine core EngineCore")
    assert last.endswith(f"(pid {core}) was ended by signal 9 (SIGKILL)")


def wait(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Poll until `condition` holds; an AssertionError says what did not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)
