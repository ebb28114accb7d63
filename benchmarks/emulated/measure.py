"""One cell: put the policy in force, replay the requests, judge them by the client's clock, write it down."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from slidingserve.bench.client import Result, Target
from slidingserve.bench.replay import Observer, replay_trace
from slidingserve.bench.score import by_class, judge
from slidingserve.intervals import wilson

from benchmarks.emulated.cells import Cell
from benchmarks.emulated.engine import Engine

PATIENCE_SECONDS = 600.0
"""For a whole request: at rates beyond what a policy can do, queues grow to the end of the run."""
IDLE_SECONDS = 2.0


def measure(cell: Cell, engine: Engine, observer: Observer) -> dict[str, Any]:
    """Run the cell and give its record."""
    trace, ttft, tbt = cell.setting.trace(cell.rate)
    engine.switch(cell.spec)
    time.sleep(IDLE_SECONDS)
    target = Target(
        engine.url + "/v1",
        cell.setting.profile,
        cell.setting.seed,
        PATIENCE_SECONDS,
        tell_promise=True,
        # Each cell meets a cache that has nothing of it.
        cache_salt=f"{cell.file}-{time.time()}",
    )
    before, begin, load = engine.cpu_seconds(), time.monotonic(), os.getloadavg()[0]
    ours = time.process_time()
    results = replay_trace(trace, ttft, tbt, target, observer=observer)
    end, after = time.monotonic(), engine.cpu_seconds()
    seconds = end - begin
    return {
        "key": cell.key,
        "options": cell.spec.settings(),
        "policy": cell.spec.policy,
        **summary(results),
        "seconds": seconds,
        "device": engine.device(begin, end),
        "cpu_share": {
            **{role: (after[role] - before[role]) / seconds for role in after},
            "client": (time.process_time() - ours) / seconds,
        },
        "load_average": [load, os.getloadavg()[0]],
        "state": {name: engine.state().get(name) for name in ("predictor", "policy", "classes")},
        "requests": [row(result) for result in results],
    }


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Attainment with Wilson's interval, and latencies, of all requests and by class."""
    kept = [judge(result, result.promise) for result in results if result.promise is not None]
    good = sum(verdict.request for verdict in kept)
    low, high = wilson(good, len(kept))
    done = [np.asarray(result.token_times) for result in results if result.token_times]
    return {
        "attainment": good / len(kept),
        "interval": [low, high],
        "missed_ttft": sum(not verdict.ttft for verdict in kept),
        "missed_tbt": sum(not verdict.tbt for verdict in kept),
        "failed": sum(not result.ok for result in results),
        "ttft_ms": percentiles([float(times[0]) for times in done]),
        "tbt_ms": percentiles(np.concatenate([np.diff(times) for times in done])),
        "classes": [score.row() for score in by_class(results)],
    }


def percentiles(seconds: Any) -> dict[str, float]:
    """p50 and p99 in ms."""
    return {f"p{p}": round(float(np.percentile(seconds, p)) * 1000, 3) for p in (50, 99)}


def row(result: Result) -> dict[str, Any]:
    """A request, short: times in ms after it was sent."""
    return {
        "index": result.index,
        "slo_class": result.slo_class,
        "sent": round(result.sent, 6),
        "lag_ms": round((result.sent - result.arrival) * 1000, 3),
        "error": result.error,
        "token_ms": [round(seconds * 1000, 2) for seconds in result.token_times],
        "promise_ms": None
        if result.promise is None
        else [round(result.promise.ttft * 1000, 3), round(result.promise.tbt * 1000, 3)],
    }


def recorded(directory: Path, cell: Cell) -> dict[str, Any] | None:
    """What an earlier run wrote of this very cell, or None."""
    try:
        content: dict[str, Any] = json.loads((directory / cell.file).read_text())
    except (OSError, ValueError):
        return None
    return content if content.get("key") == cell.key else None


def write(path: Path, content: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content) + "\n")
    partial.replace(path)
