"""What each choice of docs/method.md does, in a toy: `python -m benchmarks.choices`.

A tiny closed-loop engine (tests/unit/engine/tiny_engine.py) with the speed of a small model on one core, 5 %
noise on its batch times, three quarters short dialogues (TTFT 5 solo times, 100 ms a token), one quarter
summaries (10 solo times, 200 ms). The same requests for every row. A demonstration of directions, not a
measurement of hardware.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

from slidingserve.policies import Policy, PolicySettings, fcfs, get
from slidingserve.policies.adapt import CompiledPolicy
from slidingserve.predictor.features import Features
from slidingserve.predictor.model import LatencyModel, Weights

from tests.unit.engine.tiny_engine import Request, TinyEngine

ONE_CORE = LatencyModel(Weights(0.012, (2e-8, 0.0, 0.0, 2e-3, 1e-6, 1e-3, 0.0)))
RATES = (0.8, 1.6, 2.0)
SEEDS = 3
REQUESTS = 150


_QOSERVE: dict[str, Any] = {"grid": "rescaled", "grid_smallest": 16, "budget": 256}
_LITERAL: dict[str, Any] = {
    "margin": 1.0,
    "late": "paper_equation",
    "search": "paper",
    "second_window": "paper",
    "floor": "paper",
    "anchor": "paper",
    "all_anchors_fail": "nothing",
    "capacity": "paper",
}
_OTHER: list[tuple[str, Any]] = [
    ("constructor", False),
    ("window", "single"),
    ("sorter", "edf"),
    ("alpha", 0.3),
    ("tight", "min_chunk"),
    ("idle_window", "least_tbt"),
    ("safe_decodes", "all"),
    ("rest", "fill"),
    ("quantum", 1),
    *_LITERAL.items(),
]
"""Each is changed alone."""


@dataclass
class Noisy:
    """A machine that takes what the model says, give or take 5 %."""

    model: LatencyModel
    chance: random.Random

    def predict(self, features: Features) -> float:
        """Seconds that the batch really takes."""
        return self.model.predict(features) * self.chance.lognormvariate(0, 0.05)


def load(rate: float, seed: int) -> list[Request]:
    """Poisson arrivals at `rate` a second."""
    chance = random.Random(seed)
    now, made = 0.0, []
    for i in range(REQUESTS):
        now += chance.expovariate(rate)
        long = chance.random() > 0.75
        prompt = chance.randint(800, 1600) if long else chance.randint(30, 200)
        output = chance.randint(10, 30) if long else chance.randint(10, 40)
        solo = prompt * 0.001 + 0.08
        promise = (10 * solo, 0.2) if long else (5 * solo, 0.1)
        made.append(Request(f"{'summary' if long else 'dialogue'}-{i}", now, prompt, output, *promise))
    return made


def attainment(policy: Policy, settings: PolicySettings, rate: float) -> dict[str, float]:
    """Share of requests without a late token, by class and overall."""
    kept: dict[str, list[bool]] = {"dialogue": [], "summary": []}
    for seed in range(SEEDS):
        machine = Noisy(ONE_CORE, random.Random(seed))
        engine = TinyEngine(
            load(rate, seed), machine, ONE_CORE, 10**6, 32, 2048, chosen=settings, policy=policy
        )
        engine.run(10**6)
        for request in engine.requests:
            kept[request.name.split("-")[0]].append(not request.late)
    everyone = [good for list_ in kept.values() for good in list_]
    return {name: sum(values) / len(values) for name, values in {**kept, "all": everyone}.items()}


def main() -> int:
    """Print a row for each choice and rate."""
    paper = get("slidingserve_paper")
    rows: list[tuple[str, Policy, PolicySettings]] = [
        ("stock order", CompiledPolicy("stock", fcfs.plan), PolicySettings()),
        ("stock order, 256 tokens", CompiledPolicy("stock", fcfs.plan), PolicySettings(budget=256)),
        ("sarathi_edf, 64 tokens", get("sarathi_edf"), PolicySettings(budget=64)),
        ("qoserve, grid from 16", get("qoserve"), PolicySettings(**_QOSERVE)),
        ("ours, maxTokens null", paper, PolicySettings()),
        ("ours, maxTokens 256", paper, PolicySettings(max_chunk=256)),
        *[
            (f"  {name} {value}", paper, PolicySettings(max_chunk=256, **{name: value}))
            for name, value in _OTHER
        ],
        ("  all as printed", paper, PolicySettings(max_chunk=256, **_LITERAL)),
    ]
    print(f"{'requests a second':28}" + "".join(f"{rate:>24}" for rate in RATES))
    print(f"{'kept, share':28}" + f"{'dialogue summary    all':>24}" * len(RATES))
    for name, policy, settings in rows:
        found = [attainment(policy, settings, rate) for rate in RATES]
        cells = [f"{a['dialogue']:8.2f}{a['summary']:8.2f}{a['all']:7.3f}" for a in found]
        print(f"{name:28}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
