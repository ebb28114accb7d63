"""How many engine iterations a second the simulator does on one core, by policy: `make bench-simulator`.

The load is mixed-v1 near goodput on two RTX 3090, the method whole, the predictor learning as it would. The
time is the processor's for all of `sim.run`, compiling left out. Writes build/bench-simulator/results.json.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from slidingserve import hardware, sim, workloads
from slidingserve.policies.dispatch import NAMES
from slidingserve.workloads.slo import promises

RESULTS = Path(__file__).resolve().parent.parent / "build" / "bench-simulator" / "results.json"
HARDWARE, WORKLOAD, REQUESTS = "rtx3090-tp2-llama3.1-8b", "mixed_v1", 2000
RATES = (1.6, 3.0)
"""Near goodput, and far beyond it, where queues are long."""
ROUNDS = 3


def measure(policy: str, qps: float) -> dict[str, Any]:
    """The best of a few rounds, since other work on the machine only slows them."""
    machine = hardware.get(HARDWARE)
    trace = workloads.get(WORKLOAD, requests=REQUESTS, qps=qps, seed=1)
    ttft, tbt = promises(trace, hardware.solo_seconds(machine, trace.prompt_tokens))
    config = sim.SimConfig(machine, policy)
    sim.run(trace, ttft, tbt, config)
    best, iterations = float("inf"), 0
    for _ in range(ROUNDS):
        begin = time.process_time()
        iterations = sim.run(trace, ttft, tbt, config).counters.iterations
        best = min(best, time.process_time() - begin)
    return {
        "policy": policy,
        "qps": qps,
        "iterations": iterations,
        "seconds": round(best, 3),
        "iterations_per_second": round(iterations / best),
    }


def main() -> int:
    """Measure every policy, print a table, write the results."""
    rows = [measure(policy, qps) for qps in RATES for policy in NAMES]
    for row in rows:
        print(f"{row['policy']:<20} {row['qps']:>4}/s {row['iterations_per_second']:>8} iterations a second")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    about = {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    print("wrote build/bench-simulator/results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
