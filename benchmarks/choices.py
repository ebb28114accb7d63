"""What each choice of docs/method.md does, in the simulator: `python -m benchmarks.choices`.

mixed-v1 on two RTX 3090 (Llama-3.1-8B) at a rate near the paper method's goodput and at one above it. One
option is changed at a time; the same requests for every row, three seeds of 1,000 requests pooled, each with
its own fit of the predictor. Some minutes; `make bench-paper` has the goodput searches.
"""

from __future__ import annotations

import sys
from typing import Any

from slidingserve import hardware
from slidingserve.hardware.solo import solo_seconds
from slidingserve.policies import PolicySettings
from slidingserve.sim import PredictorConfig, SimConfig, metrics, run
from slidingserve.workloads import get
from slidingserve.workloads.slo import promises

PROFILE = "rtx3090-tp2-llama3.1-8b"
WORKLOAD = "mixed_v1"
RATES = (1.5, 2.0)
SEEDS = 3
REQUESTS = 1000
PAPER = "slidingserve_paper"

LITERAL: dict[str, Any] = {
    "margin": 1.0,
    "late": "paper_equation",
    "search": "paper",
    "second_window": "paper",
    "floor": "paper",
    "safe_decodes": "all",
    "anchor": "paper",
    "all_anchors_fail": "nothing",
    "capacity": "paper",
}
OTHER: tuple[dict[str, Any], ...] = (
    {"constructor": False},
    {"constructor": False, "sorter": "edf"},
    {"window": "single"},
    {"sorter": "edf"},
    {"alpha": 0.3},
    {"alpha": 1.5},
    {"tight": "min_chunk"},
    {"idle_window": "least_tbt"},
    {"max_chunk": 512},
    {"max_chunk": 256},
    {"rest": "fill"},
    {"quantum": 1},
    {"margin": 1.3},
)


def rows() -> list[tuple[str, dict[str, Any]]]:
    """Policy and the settings that differ from the defaults: the default, each choice alone, all at once."""
    alone: list[dict[str, Any]] = [{name: value} for name, value in LITERAL.items()]
    search = {name: LITERAL[name] for name in ("search", "second_window", "floor")}
    return [
        (PAPER, {}),
        *[(PAPER, options) for options in (*OTHER, *alone, search, LITERAL)],
        ("fcfs", {"budget": 256}),
        ("sarathi_edf", {"budget": 256}),
        ("sarathi_edf", {"budget": 128}),
        ("qoserve", {}),
        ("qoserve", {"grid": "rescaled", "grid_smallest": 16, "budget": 512}),
        ("ppas", {"pressure_cap": 256}),
    ]


def kept(policy: str, settings: PolicySettings, rate: float) -> dict[str, float]:
    """Share of requests without a late token, by class and overall."""
    profile = hardware.get(PROFILE)
    parts = []
    for seed in range(SEEDS):
        trace = get(WORKLOAD, requests=REQUESTS, qps=rate, seed=seed)
        ttft, tbt = promises(trace, solo_seconds(profile, trace.prompt_tokens))
        fit = PredictorConfig(fit_seed=seed)
        config = SimConfig(profile, policy=policy, settings=settings, predictor=fit)
        parts.append(metrics.tallies(run(trace, ttft, tbt, config, seed)))
    by_class = metrics.pooled(parts)
    found = {name: 1 - tally.share for name, tally in by_class.items()}
    return {**found, "all": 1 - metrics.overall(by_class).share}


def main() -> int:
    """Print a row of the table in docs/method.md for each choice."""
    classes = ("dialogue", "summarization", "all")
    print(f"| kept, % ({', '.join(classes)}) | " + " | ".join(f"{rate} requests/s" for rate in RATES) + " |")
    print("|---" * (1 + len(RATES)) + "|")
    for policy, options in rows():
        words = ", ".join(f"`{name}` {value}" for name, value in options.items()) or "defaults"
        name = words if policy == PAPER else f"{policy}: {words}"
        found = [kept(policy, PolicySettings(**options), rate) for rate in RATES]
        cells = [", ".join(f"{100 * shares[of]:.1f}" for of in classes) for shares in found]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
