"""The simulator's batches, one by one, against those of vLLM's real scheduler and KV cache.

The same requests come before the same steps on both sides; in the simulator every batch takes one second, so
that its clock counts steps. Compared is Table 1 of each batch: how much was prefilled and decoded upon what.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

BLOCK_BYTES = 16 * 2 * 4 * 64 * 2
"""Of `cores.SleepingExecutor`: 16 tokens, keys and values, 4 heads of 64, 2 bytes each."""
MAX_TOKENS, MAX_REQUESTS = 256, 8
ROOMY, TINY = 4096, 40
"""Blocks of the KV cache."""


class Asked(NamedTuple):
    step: int
    """It comes before this step."""
    prompt: int
    output: int
    group: int
    """Requests of a group begin with the same two blocks."""


def requests(seed: int) -> list[Asked]:
    """Bursts and gaps over one long request that keeps the engine from ever being idle."""
    draw = random.Random(seed)
    made, step = [Asked(0, 40, 400, 0)], 0
    for _ in range(60):
        step += draw.choice([0, 0, 1, 2, 9])
        made.append(Asked(step, draw.randint(40, 400), draw.randint(1, 40), draw.randint(0, 3)))
    return made


def text(group: int, request: int, length: int) -> list[int]:
    return ([200 + group] * 32 + [10 + request] * length)[:length]


Real = Callable[..., list[list[float]]]


@pytest.fixture
def real(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Real]:
    """Table 1 of each batch that vLLM makes of the requests."""
    from slidingserve.vllm_adapter.agent import really_scheduled

    from tests.engine.cores import Core

    cores: list[Core] = []

    def batches(
        asked: list[Asked], *, policy: str, late: bool, asynchronous: bool, blocks: int, caching: bool
    ) -> Any:
        core = Core(
            tiny_model,
            tmp_path,
            monkeypatch,
            stock=policy == "fcfs",
            asynchronous=asynchronous,
            sleeps=False,
            kv_bytes=blocks * BLOCK_BYTES,
            engine={"max_model_len": 512, "enable_prefix_caching": caching},
            policy=policy,
        )
        cores.append(core)
        found: list[list[float]] = []
        schedule = core.scheduler.schedule

        def watched(throttle_prefills: bool = False) -> Any:
            output = schedule(throttle_prefills)
            if output.total_num_scheduled_tokens:
                counts = output.num_scheduled_tokens
                found.append(list(really_scheduled(core.scheduler.requests, counts)))
            return output

        core.scheduler.schedule = watched
        past, left = time.time() - 1e5, list(enumerate(asked))
        while left or core.scheduler.has_requests() or core.core.batch_queue:
            # With asynchronous scheduling the next batch is planned when the one before it starts.
            seen = max(len(found) - 1, 0) if asynchronous else len(found)
            while left and left[0][1].step <= seen:
                name, one = left.pop(0)
                promise = {"ttft_s": 1.0 if late else 1e6, "tbt_s": 1.0, "arrival": past + name}
                core.add(str(name), text(one.group, name, one.prompt), one.output, **promise)
            core.step()
        return found

    yield batches
    for core in cores:
        core.close()


def simulated(
    asked: list[Asked], *, policy: str, late: bool, asynchronous: bool, blocks: int, caching: bool
) -> Any:
    """The same in the simulator."""
    from slidingserve import sim
    from slidingserve.workloads import Trace

    from tests.unit.sim.engines import engine, hardware

    trace = Trace(
        np.array([max(one.step - 0.5, 0.0) for one in asked]),
        np.array([one.prompt for one in asked]),
        np.array([one.output for one in asked]),
        np.zeros(len(asked), np.int64),
        prefix_ids=np.array([one.group for one in asked]),
        prefix_offsets=np.arange(len(asked) + 1),
        prefix_block=32,
    )
    due = np.arange(len(asked)) + (-1e6 if late else 1e6)
    config = engine(
        policy,
        hardware=hardware(step=1.0, token=0.0),
        max_tokens=MAX_TOKENS,
        max_requests=MAX_REQUESTS,
        kv_tokens=blocks * 16,
        prefix_caching=caching,
        async_scheduling=asynchronous,
    )
    result = sim.run(trace, due - trace.arrival, np.ones(len(asked)), config, steps=True)
    assert result.steps is not None
    assert (result.counters.preemptions > 0) == (blocks == TINY)
    assert (result.counters.hit_tokens > 0) == caching
    assert result.counters.plan_errors == 0
    return result.steps.features.tolist()


@pytest.mark.parametrize(("policy", "late"), [("fcfs", False), ("sarathi_edf", False), ("sarathi_edf", True)])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("blocks", "caching"), [(ROOMY, False), (ROOMY, True), (TINY, False), (TINY, True)])
def test_every_batch_is_the_one_that_vllm_would_make(
    real: Real, policy: str, late: bool, asynchronous: bool, blocks: int, caching: bool
) -> None:
    options: dict[str, Any] = {
        "policy": policy,
        "late": late,
        "asynchronous": asynchronous,
        "blocks": blocks,
        "caching": caching,
    }
    asked = requests(seed=blocks)
    theirs, ours = real(asked, **options), simulated(asked, **options)
    for step, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        assert one == other, f"batch {step}: vLLM {one}, simulator {other}"
    assert len(theirs) == len(ours)
