"""The policy and settings in force in one engine core: one object, swapped by reference, compiled beforehand.

numba compiles a policy in seconds, or loads it from its cache in a fraction of one. That happens here: before
the engine is ready, and later in the thread that watches the configuration, never in a step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from slidingserve.config import EngineConfig
from slidingserve.core.columns import Columns, Decision, Weights
from slidingserve.core.rows import Phase
from slidingserve.core.settings import Settings

logger = logging.getLogger("vllm.slidingserve")

Plan = Callable[[Columns, Weights, Settings], Decision]
SLOW_SECONDS = 0.05


class Force(NamedTuple):
    """What decides a step. Take it once a round."""

    policy: str
    plan: Plan | None
    """Compiled; None for fcfs, which leaves every step to vLLM."""
    settings: Settings


def force_of(config: EngineConfig, weights: Weights) -> Force:
    """What a configuration puts in force, ready to be called. May take seconds: not for the engine's loop.

    `weights`: any model's, for their type.
    """
    name, settings = config.scheduler.policy, config.policy_settings().compiled()
    if name == "fcfs":
        return Force(name, None, settings)
    begin = time.monotonic()
    plan: Plan = import_module(f"slidingserve.policies.{name}").plan
    plan(example(), weights, settings)
    lasting = time.monotonic() - begin
    if lasting > SLOW_SECONDS:
        logger.info("slidingserve: policy %s was compiled or loaded in %.1f s", name, lasting)
    return Force(name, plan, settings)


def example() -> Columns:
    """Columns of the types that `observe` makes, with a request of every phase: numba compiles by type."""
    counts = {"remaining": (1, 40, 100), "cached": (60, 60, 0)}
    numbers: dict[str, Any] = {name: np.array(values, np.int64) for name, values in counts.items()}
    for name, value in {"arrival": 0.0, "slack": 0.5, "tbt_limit": 0.1, "ttft_limit": 1.0}.items():
        numbers[name] = np.full(3, value)
    return Columns(
        now=0.0,
        phase=np.array([Phase.DECODE, Phase.PREFILL, Phase.WAITING], np.int8),
        safeguard=np.zeros(3, np.bool_),
        relegated=np.zeros(3, np.bool_),
        max_tokens=256,
        max_admissions=8,
        free_kv_tokens=4096,
        throughput=1000.0,
        **numbers,
    )
