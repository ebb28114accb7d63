"""What planning costs in a real scheduler, beside vLLM's own: `make bench-planner`.

Two of vLLM's schedulers run the same closed loop of requests: ours under a policy, and the stock one. No
model runs; a virtual clock moves on by what each batch should take on a GPU, so that deadlines are as tight
as there. Ours is all that a step pays beyond vLLM's `schedule()`: looking, deciding, arranging, putting back,
noting what was scheduled and how long it took. Writes build/bench-planner/results.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent.parent / "build" / "bench-planner" / "results.json"
SIZES = ((16, 0), (64, 0), (256, 0), (512, 0), (256, 2000))
"""Requests that run, and requests that wait behind them."""
BATCH = 2048
SHOWN = (
    *("policy", "active", "waiting", "p50_ms", "cpu_p50_ms", "cpu_p99_ms", "p99_ms"),
    *(
        "stock_p50_ms",
        "stock_cpu_p99_ms",
        "stock_p99_ms",
        "inner_p50_ms",
        "step_ms",
        "share_percent",
        "running",
    ),
)
WARM_UP = 300
BLOCK = 100


class Clock:
    """Seconds that only the batches move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def read(self) -> float:
        """The time."""
        return self.now


class Spent(NamedTuple):
    """Nanoseconds."""

    clock: int
    processor: int
    """Of this thread. On a shared machine the p99 of the clock is mostly other people's work."""

    @classmethod
    def now(cls) -> Spent:
        """Since some moment."""
        return cls(time.perf_counter_ns(), time.thread_time_ns())

    def __add__(self, other: Any) -> Spent:
        return Spent(self.clock + other.clock, self.processor + other.processor)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.clock - other.clock, self.processor - other.processor)


class Loop:
    """A closed loop over one scheduler: a request that ends is followed by another."""

    def __init__(self, core: Any, clock: Clock, requests: int, model: Any) -> None:
        self.scheduler = core.scheduler
        self._core, self._clock, self._model = core, clock, model
        self._random = random.Random(requests)
        self._requests = requests
        self._added = 0
        self.spent: list[Spent] = []
        """By step, beyond vLLM's own `schedule()`."""
        self.stock: list[Spent] = []
        """The same of vLLM's own."""
        self.lasting: list[float] = []
        """Seconds of the batches by the predictor."""
        for _ in range(requests):
            self._add()

    def _add(self) -> None:
        """Seven chats to one summary, with answers so long that most of what runs decodes."""
        chance = self._random
        chat = chance.random() < 0.875
        prompt, output = ((30, 300), (200, 1000)) if chat else ((700, 1500), (50, 200))
        # The first ones are somewhere on their way already, so that they do not all end together.
        share = chance.uniform(0.1, 1.0) if self._added < self._requests else 1.0
        self._added += 1
        self._core.add(
            f"r{self._added}",
            chance.randint(*prompt),
            int(chance.randint(*output) * share),
            ttft_s=2.0 if chat else 6.0,
            tbt_s=0.1,
            arrival=self._clock.now,
        )

    def step(self, inner: list[Spent], keep: bool) -> None:
        """One batch. `inner` receives what vLLM's own `schedule()` took, as the last entry."""
        from slidingserve.vllm_adapter.agent import really_scheduled

        agent = getattr(self.scheduler, "agent", None)
        begin = Spent.now()
        output = type(self.scheduler).schedule(self.scheduler)
        whole = Spent.now() - begin
        seconds = 0.001
        if output.total_num_scheduled_tokens:
            features = really_scheduled(self.scheduler.requests, output.num_scheduled_tokens)
            seconds = self._model.predict(features)
        result = self._core.core.model_executor._sample(output)
        self._clock.now += seconds
        begin = Spent.now()
        if agent is not None:
            agent.done(output)
        whole += Spent.now() - begin
        outputs = self.scheduler.update_from_output(output, result)
        for one in outputs.get(0, SimpleNamespace(outputs=())).outputs:
            if one.finish_reason is not None:
                self._add()
        if keep:
            self.spent.append(whole - inner[-1])
            self.stock.append(inner[-1])
            self.lasting.append(seconds)


def measure(make: Callable[..., Any], policy: str, active: int, waiting: int, rounds: int) -> dict[str, Any]:
    """Ours under `policy` and stock in turns, over the same stream of requests."""
    import numpy as np
    from slidingserve.predictor.calibration import default_model
    from slidingserve.vllm_adapter import agent, held
    from vllm.v1.core.sched.scheduler import Scheduler

    clocks = Clock(), Clock()
    clock = clocks[0]
    virtual = SimpleNamespace(
        monotonic=clock.read, time=clock.read, perf_counter=time.perf_counter, sleep=time.sleep
    )
    inner: list[Spent] = []
    stock_schedule = Scheduler.schedule

    def timed(self: Any, throttle_prefills: bool = False) -> Any:
        begin = Spent.now()
        output = stock_schedule(self, throttle_prefills)
        inner.append(Spent.now() - begin)
        return output

    cores = make(active, policy=policy), make(active, stock=True)
    for module in (agent, held):
        vars(module)["time"] = virtual
    Scheduler.schedule = timed
    try:
        model = default_model("cuda")
        loops = [Loop(core, own, active + waiting, model) for core, own in zip(cores, clocks, strict=True)]
        gc.collect()
        gc.freeze()  # as vLLM does before it serves
        in_force = cores[0].agent.force
        cores[0].agent.force = in_force._replace(plan=None)  # both begin alike, with as many running
        for block in range((WARM_UP + rounds) // BLOCK):
            if block * BLOCK >= WARM_UP - BLOCK:
                cores[0].agent.force = in_force
            for loop in loops:
                for _ in range(BLOCK):
                    loop.step(inner, keep=block * BLOCK >= WARM_UP)
    finally:
        Scheduler.schedule = stock_schedule
        for module in (agent, held):
            vars(module)["time"] = time
        for core in cores:
            core.core.shutdown()
    ours, stock = loops
    step = float(np.mean(ours.lasting))
    row: dict[str, Any] = {"policy": policy, "active": active, "waiting": waiting}
    # "inner" is vLLM's schedule() as ours calls it: with another load than stock's, and our caps in its loop.
    for name, values in {"": ours.spent, "stock_": stock.stock, "inner_": ours.stock}.items():
        for kind, column in {"": 0, "cpu_": 1}.items():
            table = [value[column] / 1e6 for value in values]
            for share in (50, 99):
                row[f"{name}{kind}p{share}_ms"] = round(float(np.percentile(table, share)), 4)
    row["step_ms"] = round(step * 1000, 2)
    row["share_percent"] = round(float(np.mean(ours.spent, axis=0)[1]) / 1e7 / step, 3)
    row["running"] = [len(loop.scheduler.running) for loop in loops]
    return row


def maker(directory: Path, model: Path) -> Callable[..., Any]:
    """Makes cores without a model, each with a directory of its own."""
    import pytest

    from tests.engine.cores import Core

    patch = pytest.MonkeyPatch()
    made = iter(range(10_000))

    def make(active: int, *, stock: bool = False, **scheduler: Any) -> Any:
        engine = {"max_num_seqs": active, "max_num_batched_tokens": BATCH}
        number = directory / str(next(made))
        settings = {**scheduler, "predictor": {"refreshSeconds": 86_400}}
        return Core(model, number, patch, stock=stock, kv_bytes=1 << 30, engine=engine, **settings)

    return make


def main(argv: list[str]) -> int:
    """Measure every policy and size, print a table, write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="steps measured of each scheduler and size")
    parser.add_argument("--policy", action="append", help="only this one; may be repeated")
    chosen = parser.parse_args(argv)
    try:
        import vllm
    except ImportError:
        print("benchmarks.planner: vLLM is not installed here; run `make bench-planner`", file=sys.stderr)
        return 2
    from slidingserve import policies

    from tests.engine.conftest import ENVIRONMENT

    os.environ.update(ENVIRONMENT, VLLM_PLUGINS="slidingserve")
    logging.disable(logging.WARNING)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SLIDINGSERVE_STATE_DIR"] = folder
        from slidingserve.bench.demo_model import write

        model = Path(folder, "tiny")
        write(model, "tiny")
        make = maker(Path(folder), model)
        for active, waiting in SIZES:
            for name in chosen.policy or policies.names():
                rows.append(measure(make, name, active, waiting, chosen.rounds))
                if len(rows) == 1:
                    print("  ".join(f"{key:>{width(key)}}" for key in SHOWN))
                print("  ".join(f"{rows[-1][key]!s:>{width(key)}}" for key in SHOWN), flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "vllm": vllm.__version__, "cores": os.cpu_count()}
    document = {"rounds": chosen.rounds, "machine": machine, "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    print("wrote build/bench-planner/results.json")
    return 0


def width(key: str) -> int:
    """Of a column."""
    return max(len(key), 18 if key == "policy" else 8)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
