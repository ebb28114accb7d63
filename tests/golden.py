"""One minute of every workload under every policy: the batches, as hashes. `make golden REASON="..."` records
them.

A batch is recorded by whole numbers alone (Table 1, the branch), and nothing that a mathematics library
computes decides one: no noise, a model given by numbers. So the hashes hold on every machine.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from slidingserve import hardware, sim, workloads
from slidingserve.policies.dispatch import NAMES
from slidingserve.predictor.features import Scene
from slidingserve.predictor.model import LatencyModel, Weights
from slidingserve.workloads.slo import promises

FILE = Path(__file__).parent / "data" / "golden_plans.json"
HARDWARE = "rtx3090-tp2-llama3.1-8b"
SECONDS = 60.0
RATES: dict[str, float | None] = {
    "sharegpt": 5.0,
    "arxiv_v1": 0.8,
    "arxiv_v2": 0.5,
    "mixed_v1": 2.0,
    "mixed_v2": 2.5,
    "azure_code_2023": None,
    "azure_conv_2023": None,
    "mooncake": None,
}
"""Requests a second, enough to make a policy choose; None: the trace's own times."""
MODEL = LatencyModel(
    Weights(0.018, (1.2e-9, 0.0, 2e-8, 1.5e-4, 8e-8, 1.8e-4, 0.0)),
    {Scene.DECODE: Weights(0.02, (0.0, 0.0, 0.0, 1.5e-4, 8e-8, 0.0, 0.0))},
)


def plans(workload: str, policy: str, *, asynchronous: bool) -> dict[str, Any]:
    """How many batches there were, and their hash."""
    rate = RATES[workload]
    arrivals: Any = "trace" if rate is None else "poisson"
    trace = workloads.get(workload, requests=400, qps=rate, seed=4, arrivals=arrivals)
    trace = trace.select(trace.arrival < SECONDS)
    machine = hardware.get(HARDWARE)
    ttft, tbt = promises(trace, hardware.solo_seconds(machine, trace.prompt_tokens))
    config = sim.SimConfig(
        machine,
        policy,
        async_scheduling=asynchronous,
        predictor=sim.PredictorConfig(model=MODEL, refresh_seconds=None),
        noise=0.0,
    )
    steps = sim.run(trace, ttft, tbt, config, steps=True).steps
    assert steps is not None
    numbers = np.column_stack([steps.features.astype(np.int64), steps.branch])
    return {"batches": len(steps), "sha256": hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()[:16]}


def name(policy: str, asynchronous: bool) -> str:
    """As the file has it."""
    return f"{policy} async" if asynchronous else policy


def record() -> dict[str, dict[str, Any]]:
    """All of them, by workload and policy."""
    return {
        workload: {
            name(policy, mode): plans(workload, policy, asynchronous=mode)
            for policy in NAMES
            for mode in (False, True)
        }
        for workload in RATES
    }


def main(argv: list[str]) -> int:
    """Record anew, with the reason why plans have changed."""
    reason = " ".join(argv).strip()
    if len(reason) < 10:
        print('golden: say why plans have changed: make golden REASON="..."')
        return 2
    before = json.loads(FILE.read_text()) if FILE.exists() else {"reasons": [], "plans": {}}
    found = record()
    if found == before["plans"]:
        print("golden: nothing has changed")
        return 0
    document = {"reasons": [*before["reasons"], reason], "plans": found}
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    print(f"golden: wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
