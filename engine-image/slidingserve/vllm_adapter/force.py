"""The policy and settings in force in one engine core: one object, swapped by reference, compiled beforehand.

numba compiles a policy in seconds, or loads it from its cache in a fraction of one. That happens here: before
the engine is ready, and later in the thread that watches the configuration, never in a step. In service a
process of its own compiles: a thread would take turns with the engine's loop in one interpreter. Once the
engine is ready it compiles the other policies too (`Warmth`), so that a switch to one finds its code.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slidingserve.config import EngineConfig, builtin
from slidingserve.core.batch import batch_of
from slidingserve.core.columns import Columns, Decision, Weights
from slidingserve.core.settings import Settings
from slidingserve.policies import DEFAULT_POLICY
from slidingserve.policies import names as names_of_policies
from slidingserve.predictor.calibration import default_model
from slidingserve.vllm_adapter.assemble import Moment, arrange, assemble, match
from slidingserve.vllm_adapter.held import Table

logger = logging.getLogger("vllm.slidingserve")

Plan = Callable[[Columns, Weights, Settings], Decision]
SLOW_SECONDS = 0.05
COMPILE_SECONDS = 300.0
ENOUGH_CPUS = 2
IDLE = "--idle"
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""Of this container, in its own view of the control groups (version 2)."""


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
    if serving and not loaded(name) and not compiled_ahead():
        compile_apart(name)
    _first_call(plan, weights, settings)
    lasting = time.monotonic() - begin
    if lasting > SLOW_SECONDS:
        logger.info("slidingserve: policy %s was compiled or loaded in %.1f s", name, lasting)
    return Force(name, plan, settings)


def loaded(name: str) -> bool:
    """Whether this process has the code of that policy."""
    return name == "fcfs" or bool(
        getattr(import_module(f"slidingserve.policies.{name}").plan, "signatures", ())
    )


def compile_apart(*names: str, idle: bool = False) -> bool:
    """Compile policies in a process of low priority, which leaves the code in numba's cache on disk.

    `idle`: it gets only what CPU nobody else wants. Where it fails, this process compiles when it needs one.
    Returns whether it went well.
    """
    command = [sys.executable, "-m", "slidingserve.vllm_adapter.force", *([IDLE] if idle else []), *names]
    try:
        subprocess.run(
            command,
            check=True,
            timeout=COMPILE_SECONDS * len(names),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        told = "policy %s is compiled beside the engine's loop: %s"
        logger.warning(f"slidingserve: {told}", " and ".join(names), error)
        return False
    return True


class Warmth:
    """Compiles in the background what is not in force, once a cache."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def begin(self, in_force: str) -> None:
        """Begin, in a daemon thread; the second call does nothing.

        Not where the container has less than two CPUs: what the compiler takes there, the engine lacks.
        """
        if self._thread is None:
            names = [name for name in names_of_policies() if name not in ("fcfs", in_force)]
            self._thread = threading.Thread(
                target=self._run, args=(names,), name="slidingserve-compile", daemon=True
            )
            self._thread.start()

    def _run(self, names: list[str]) -> None:
        try:
            if cpus() < ENOUGH_CPUS or compiled_ahead():
                return
            if compile_apart(*names, idle=True) and (stamp := _stamp()) is not None:
                stamp.touch()
                logger.info("slidingserve: compiled for a later switch: %s", ", ".join(names))
        except Exception as error:  # nothing depends on it
            logger.warning("slidingserve: policies are not compiled ahead: %s", error)


def _stamp() -> Path | None:
    """The file beside numba's that says: all policies of this source were compiled for this CPU."""
    plan: Any = import_module(f"slidingserve.policies.{DEFAULT_POLICY}").plan
    cache = getattr(plan, "_cache", None)
    if cache is None or not hasattr(cache, "_cache_file"):
        return None
    # numba tells CPUs apart by triple, name and features; the name of its index tells sources apart.
    machine = repr(plan.targetctx.codegen().magic_tuple())
    told = hashlib.sha256(f"{cache._cache_file._index_name}{machine}".encode()).hexdigest()[:16]
    return Path(cache.cache_path) / f"all-policies-{told}"


def compiled_ahead() -> bool:
    """Whether the code of every policy lies in numba's cache, so that this process only has to load it."""
    stamp = _stamp()
    return stamp is not None and stamp.exists()


def cpus(quota: Path = CPU_MAX) -> float:
    """How many CPUs this process may use: of the machine, or of its control group if that has fewer."""
    mine = float(len(os.sched_getaffinity(0)))
    try:
        most, period = quota.read_text().split()
        return min(mine, int(most) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no limit is the word "max"
        return mine


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


def main(words: Sequence[str]) -> None:
    """Compile the policies of those names for an engine in service."""
    os.nice(10)
    if words[0] == IDLE:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    config = builtin()
    for name in words[words[0] == IDLE :]:
        scheduler = config.scheduler.model_copy(update={"policy": name})
        force_of(config.model_copy(update={"scheduler": scheduler}), default_model("cpu").matrix)


if __name__ == "__main__":
    main(sys.argv[1:])
