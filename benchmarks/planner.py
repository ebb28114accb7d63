"""What a round of the planner costs, in microseconds, by the number of active requests: `make bench-planner`.

A round is what the adapter pays in each step: rows into a snapshot, snapshot into a plan. Half of the
requests decode, the rest prefill or wait. The processor's time stands beside the wall clock, because on a
shared machine the p99 of the clock is mostly other people's work. Writes build/bench-planner/results.json.
"""

from __future__ import annotations

import gc
import json
import platform
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from slidingserve import policies
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.predictor.calibration import default_model

RESULTS = Path(__file__).resolve().parent.parent / "build" / "bench-planner" / "results.json"
SIZES = (16, 64, 256, 512)
ROUNDS = 3000
WARM_UP = 100


def rows(active: int, rng: random.Random, now: float) -> list[Row]:
    """A busy engine: half decoding within their promise, a quarter prefilling, a quarter waiting."""
    made = []
    for i in range(active):
        phase = (Phase.DECODE, Phase.PREFILL, Phase.DECODE, Phase.WAITING)[i % 4]
        prompt = rng.randint(50, 4000)
        output = rng.randint(1, 300) if phase == Phase.DECODE else 0
        computed = {Phase.DECODE: prompt + output, Phase.PREFILL: prompt // 3, Phase.WAITING: 0}[phase]
        arrival = now - rng.uniform(0, 1) - output * 0.05
        made.append(Row(f"request-{i}", phase, arrival, prompt, computed, output, 1.2, 0.05, i % 16 == 0))
    return made


def measure(policy_name: str, active: int, rounds: int = ROUNDS) -> dict[str, float]:
    """p50 and p99 of rounds in microseconds: wall clock, processor, and the clock of the plan alone."""
    rng = random.Random(active)
    policy, model, settings = policies.get(policy_name), default_model("cuda"), policies.PolicySettings()
    states = [rows(active, rng, 0.0) for _ in range(20)]
    wall, processor, planning = [], [], []
    for i in range(WARM_UP + rounds):
        cpu, start = time.thread_time_ns(), time.perf_counter_ns()
        snapshot = Snapshot.from_rows(
            states[i % len(states)], now=0.0, max_tokens=2048, free_kv_tokens=200_000, throughput=5000.0
        )
        middle = time.perf_counter_ns()
        policy.plan(snapshot, model, settings)
        end, cpu_end = time.perf_counter_ns(), time.thread_time_ns()
        if i >= WARM_UP:
            wall.append((end - start) / 1000)
            processor.append((cpu_end - cpu) / 1000)
            planning.append((end - middle) / 1000)
    columns = {"": wall, "cpu_": processor, "plan_": planning}
    return {
        f"{name}p{share}_us": round(float(np.percentile(values, share)), 1)
        for name, values in columns.items()
        for share in (50, 99)
    }


def main() -> int:
    """Measure every size, print a table, write the results."""
    gc.disable()  # as vLLM freezes its heap: a collection is not the planner's cost
    name = policies.DEFAULT_POLICY
    results: list[dict[str, Any]] = []
    for active in SIZES:
        row = {"policy": name, "active": active, **measure(name, active)}
        results.append(row)
        if active == SIZES[0]:
            print("  ".join(f"{key:>{max(len(key), len(str(value)))}}" for key, value in row.items()))
        print("  ".join(f"{value!s:>{len(key)}}" for key, value in row.items()))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    RESULTS.write_text(json.dumps({"rounds": ROUNDS, "machine": machine, "rows": results}, indent=2) + "\n")
    print("wrote build/bench-planner/results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
