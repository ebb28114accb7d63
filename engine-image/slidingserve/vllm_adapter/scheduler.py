"""The scheduler that vLLM loads: a factory, and a mixin that wraps vLLM's own `schedule()` without copying
it.

A step: `agent` plans and arranges vLLM's queues (`observe`, `assemble`, `step`), vLLM schedules, everything
is put back, and what was really scheduled is noted (`clock`, `learner`).
"""

from __future__ import annotations

import logging
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler

from slidingserve.server.runtime import Runtime
from slidingserve.vllm_adapter import gate
from slidingserve.vllm_adapter.agent import CoreAgent, report_fallback
from slidingserve.vllm_adapter.identity import core_index, engine_label, limits_of, profile_key
from slidingserve.vllm_adapter.step import Step

logger = logging.getLogger("vllm.slidingserve")


class SlidingServeMixin:
    """Plans each step around `super().schedule()`. Mixed over vLLM's Scheduler or AsyncScheduler."""

    agent: CoreAgent
    _step: Step

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """vLLM's step, in the order and within the limits of the plan."""
        step = self._step = self.agent.prepare(self)
        try:
            output: SchedulerOutput = super().schedule(throttle_prefills)  # type: ignore[misc]
        finally:
            step.restore(self)
        self.agent.scheduled(self, output, step)
        return output

    def _reserve_prefill_lookahead(self, request: Any, num_computed_tokens: int, num_new_tokens: int) -> int:
        """vLLM asks here, last before it allocates, how many tokens a request gets: the plan's cap, 0
        for one that it leaves out."""
        tokens: int = super()._reserve_prefill_lookahead(request, num_computed_tokens, num_new_tokens)  # type: ignore[misc]
        planned = self._step.tokens
        return tokens if planned is None else min(tokens, planned.get(request.request_id, 0))

    def update_from_output(self, scheduler_output: SchedulerOutput, model_runner_output: Any) -> Any:
        """A batch is done: note when, then go on as vLLM does."""
        self.agent.done(scheduler_output)
        return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]

    def shutdown(self) -> None:
        """The engine ends."""
        self.agent.stop()
        super().shutdown()  # type: ignore[misc]


class SlidingServeScheduler(SlidingServeMixin, Scheduler):
    """Over vLLM's scheduler."""


class SlidingServeAsyncScheduler(SlidingServeMixin, AsyncScheduler):
    """Over vLLM's scheduler for asynchronous scheduling."""


def make_scheduler(*args: Any, **kwargs: Any) -> Any:
    """What `--scheduler-cls` names: pick the class for this engine, or vLLM's own where the gate says so.

    vLLM settles some things only when the model is loaded (it may switch chunked prefill off), so the gate
    is asked once more here. Raises RuntimeError with its sentence unless --fallback was given.
    """
    config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
    asynchronous = config.scheduler_config.async_scheduling
    runtime = Runtime.from_env()
    if runtime is None:
        raise RuntimeError("SlidingServe's scheduler is started by `slidingserve serve`, not by `vllm serve`")
    reason = runtime.fallback_reason or gate.check_config(config)
    if reason:
        if not runtime.fallback_allowed:
            raise RuntimeError(f"slidingserve: {reason}, or start with --fallback")
        report_fallback(runtime, config, reason)
        return (AsyncScheduler if asynchronous else Scheduler)(*args, **kwargs)
    scheduler = (SlidingServeAsyncScheduler if asynchronous else SlidingServeScheduler)(*args, **kwargs)
    scheduler._step = Step()
    scheduler.agent = CoreAgent(
        runtime,
        index=core_index(config),
        engine=engine_label(config),
        limits=limits_of(config),
        key=profile_key(config),
    )
    scheduler.agent.start()
    return scheduler
