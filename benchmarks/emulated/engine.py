"""One engine of ours: started, switched from policy to policy through slidingserve.json, watched."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.emulated.cells import Spec
from tests.ports import free_port

START_SECONDS = 300.0
SWITCH_SECONDS = 120.0
STALL_MS = 50.0
"""A result that reaches vLLM so late was held up by this machine, not by the policy."""


class EngineError(RuntimeError):
    """The engine did not do what it should; the text is one sentence."""


class Engine:
    """A `slidingserve serve` on a free port of this machine; what it writes is below `directory`."""

    def __init__(self, arguments: list[str], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._generation = 0
        self._config = directory / "config"
        self._config.mkdir(exist_ok=True)
        self._batches = log_of(directory)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._write(Spec.parse("fcfs"))
        command = [sys.executable, "-m", "slidingserve.cli", "serve", *arguments]
        command += ["--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log"]
        command += ["--slo-config", str(self._config), "--state-dir", str(directory / "state")]
        command += ["--profile-dir", str(directory / "profiles")]
        self._log = directory / "engine.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def ready(self) -> None:
        """Wait until it serves and its predictor is measured. Raises EngineError with its last lines."""
        self._wait(lambda: self._get("ready").status_code == 200, "be ready", START_SECONDS)

    def switch(self, spec: Spec) -> None:
        """Put a policy in force."""
        self._write(spec)
        self._wait(
            lambda: self.state()["applied"]["generation"] == self._generation,
            f"take {spec.label}: {self.state().get('rejected')}",
            SWITCH_SECONDS,
        )
        if (found := self.state()["policy"]) != spec.policy:
            raise EngineError(f"the engine runs {found} where {spec.policy} was asked for")

    def state(self) -> dict[str, Any]:
        """Its own report."""
        answer: dict[str, Any] = self._get("state").json()
        return answer

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time so far of its processes: API server (the launcher) and cores."""
        ticks = os.sysconf("SC_CLK_TCK")
        found: dict[str, float] = {"api": 0.0, "core": 0.0}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self._process.pid:  # its process group
                    role = "api" if stat.parent.name == str(self._process.pid) else "core"
                    found[role] += (int(fields[11]) + int(fields[12])) / ticks
        return found

    def rows(self) -> list[dict[str, float]]:
        """The device's log so far, less about the last second: it is flushed as batches run."""
        with self._batches.open() as file:
            lines = [line for line in file if line.endswith("\n")]
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(lines)]

    def device(self, begin: float, end: float) -> dict[str, Any] | None:
        """The emulated device's own record between two times (monotonic seconds); None for a real one."""
        if not self._batches.exists():
            return None
        rows = [row for row in self.rows() if row["start"] >= begin and row["end"] <= end]
        late = np.array([row["woke"] - row["end"] for row in rows]) * 1000
        # The queue formula, t_done(N) - t_done(N-1) of batches back to back, against the device's own time.
        off = [
            abs(after["woke"] - before["woke"] - (after["end"] - after["start"])) * 1000
            for before, after in pairwise(rows)
            if after["start"] - before["end"] < 2e-6
        ]
        seconds = np.array([row["end"] - row["start"] for row in rows])
        tokens = np.array([row["prefill_tokens"] + row["decodes"] for row in rows])
        return {
            "batches": len(rows),
            "busy": float(seconds.sum() / (end - begin)),
            "batch_ms_mean": float(seconds.mean() * 1000),
            "batch_tokens_mean": float(tokens.mean()),
            "stalled_seconds": float(late[late > STALL_MS].sum() / 1000),
            "woke_late_ms": {f"p{p}": float(np.percentile(late, p)) for p in (50, 95, 99)},
            "formula_off_ms": {f"p{p}": float(np.percentile(off, p)) for p in (50, 95, 99)} if off else None,
        }

    def stop(self) -> None:
        """End it and all its processes."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    def _get(self, name: str) -> httpx.Response:
        return httpx.get(f"{self.url}/slidingserve/v1/{name}", timeout=30)

    def _write(self, spec: Spec) -> None:
        self._generation += 1
        partial = self._config / ".new"
        partial.write_text(json.dumps(spec.document(self._generation)))
        partial.replace(self._config / "slidingserve.json")

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            if self._process.poll() is not None:
                raise EngineError(f"the engine ended: {self._said()}")
            with contextlib.suppress(httpx.TransportError):
                if condition():
                    return
            if time.monotonic() > end:
                raise EngineError(f"the engine did not {what} within {seconds:g} s; see {self._log}")
            time.sleep(0.1)

    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def log_of(directory: Path) -> Path:
    """Where an emulated device of that directory writes its batches."""
    return directory / "batches.csv"


def emulated(profile: str, max_tokens: int | None, directory: Path) -> list[str]:
    """Arguments of an engine at the speed of a hardware profile."""
    limit = [] if max_tokens is None else ["--max-num-batched-tokens", str(max_tokens)]
    return ["--emulate", profile, "--emulate-log", str(log_of(directory)), *limit]


@contextlib.contextmanager
def running(arguments: list[str], directory: Path) -> Iterator[Engine]:
    """A ready engine, stopped at the end whatever happens."""
    engine = Engine(arguments, directory)
    try:
        engine.ready()
        yield engine
    finally:
        engine.stop()
