"""The policy and settings in force in one engine core: one object, swapped by reference, compiled beforehand.

numba compiles a policy in seconds, or loads it from its cache in a fraction of one. That happens here:
before the engine is ready, and later in the thread that watches the configuration, never in a step. In
service a process of its own compiles: a thread would take turns with the engine's loop in one interpreter.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import numpy as np

from slidingserve.config import EngineConfig, builtin
from slidingserve.core.batch import batch_of
from slidingserve.core.columns import Columns, Decision, Weights
from slidingserve.core.settings import Settings
from slidingserve.predictor.calibration import default_model
from slidingserve.vllm_adapter.assemble import Moment, arrange, assemble, match
from slidingserve.vllm_adapter.held import Table

logger = logging.getLogger("vllm.slidingserve")

Plan = Callable[[Columns, Weights, Settings], Decision]
SLOW_SECONDS = 0.05
COMPILE_SECONDS = 300.0


class Force(NamedTuple):
    """What decides a step. Take it once a round."""

    policy: str
    plan: Plan | None
    """Compiled; None for fcfs, which leaves every step to vLLM."""
    settings: Settings


def force_of(config: EngineConfig, weights: Weights, *, serving: bool = False) -> Force:
    """What a configuration puts in force, ready to be called. May take seconds: not for the engine's loop.

    `weights`: any model's, for their type. `serving`: let another process do what takes long.
    """
    name, settings = config.scheduler.policy, config.policy_settings().compiled()
    if name == "fcfs":
        return Force(name, None, settings)
    begin = time.monotonic()
    plan: Plan = import_module(f"slidingserve.policies.{name}").plan
    if serving and not getattr(plan, "signatures", ()):
        compile_apart(name)
    _first_call(plan, weights, settings)
    lasting = time.monotonic() - begin
    if lasting > SLOW_SECONDS:
        logger.info("slidingserve: policy %s was compiled or loaded in %.1f s", name, lasting)
    return Force(name, plan, settings)


def compile_apart(name: str) -> None:
    """Compile a policy in a process of low priority, which leaves the code in numba's cache on disk. Where
    that fails, this process compiles."""
    command = [sys.executable, "-m", "slidingserve.vllm_adapter.force", name]
    try:
        subprocess.run(
            command, check=True, timeout=COMPILE_SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("slidingserve: policy %s is compiled beside the engine's loop: %s", name, error)


def _first_call(plan: Plan, weights: Weights, settings: Settings) -> None:
    """A whole round on a request of every phase: numba compiles by type, here for the types of a step."""
    table = Table(lambda prompt: (1.0, 0.1, False))
    facts = np.array([[60, 1, 0], [60, 0, 0]], np.int64)
    rows = match(np.arange(4), np.arange(4), np.arange(3))
    table.held.prompt[:2] = table.held.total[2] = 100
    moment = Moment(now=0.0, max_tokens=256, max_admissions=8, free_kv_tokens=4096, throughput=1000.0)
    columns = assemble(facts, rows[:2], 2, rows[2:], table.held, moment).columns
    decision = plan(columns, weights, settings)
    arrange(columns.phase, decision.tokens, decision.order, decision.relegated, 2, 2)
    batch_of(columns, decision.tokens)


def main(name: str) -> None:
    """Compile the policy of that name for an engine in service."""
    os.nice(10)
    config = builtin()
    scheduler = config.scheduler.model_copy(update={"policy": name})
    force_of(config.model_copy(update={"scheduler": scheduler}), default_model("cpu").matrix)


if __name__ == "__main__":
    main(sys.argv[1])
