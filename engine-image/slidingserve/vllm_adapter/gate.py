"""The gate: does this vLLM have the hooks that the scheduler needs, and can the planner plan this engine at
all?

First thing after the environment is set; each answer is None or one sentence. What cannot be planned is in
`unplanned`, row by row; the resource refuses by the same table what its arguments give away.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from slidingserve.command_line import missing
from slidingserve.vllm_adapter.unplanned import CONFIG_ROWS

TESTED_MINORS = ("0.32",)


class Hook(NamedTuple):
    """A function of vLLM that we call, wrap or override, and the parameters it must begin with."""

    module: str
    name: str
    parameters: tuple[str, ...]


HOOKS = (
    Hook("vllm.v1.core.sched.scheduler", "Scheduler.schedule", ("self", "throttle_prefills")),
    Hook(
        "vllm.v1.core.sched.scheduler",
        "Scheduler._reserve_prefill_lookahead",
        ("self", "request", "num_computed_tokens", "num_new_tokens"),
    ),
    Hook("vllm.v1.core.sched.scheduler", "Scheduler._handle_blocked_waiting_request", ("self", "request")),
    Hook(
        "vllm.v1.core.sched.scheduler",
        "Scheduler.update_from_output",
        ("self", "scheduler_output", "model_runner_output"),
    ),
    Hook("vllm.v1.core.sched.scheduler", "Scheduler.shutdown", ("self",)),
    Hook(
        "vllm.v1.core.sched.async_scheduler",
        "AsyncScheduler._update_after_schedule",
        ("self", "scheduler_output"),
    ),
    Hook(
        "vllm.v1.engine.input_processor",
        "InputProcessor.process_inputs",
        ("self", "request_id", "prompt", "params"),
    ),
    Hook(
        "vllm.v1.engine.output_processor",
        "OutputProcessor.process_outputs",
        ("self", "engine_core_outputs", "engine_core_timestamp"),
    ),
    Hook(
        "vllm.v1.engine.output_processor",
        "OutputProcessor.add_request",
        ("self", "request", "prompt", "parent_req", "request_index", "queue"),
    ),
    Hook("vllm.v1.engine.core_client", "AsyncMPClient.call_utility_all_async", ("self", "method")),
    Hook("vllm.engine.arg_utils", "EngineArgs.create_engine_config", ("self",)),
    Hook("vllm.v1.engine.utils", "CoreEngineProcManager.monitor_engine_liveness", ("self",)),
    Hook("vllm.v1.executor.multiproc_executor", "WorkerProc.wait_for_ready", ("unready_proc_handles",)),
    Hook(
        "vllm.v1.utils",
        "APIServerProcessManager.__init__",
        ("self", "listen_address", "sock", "args", "num_servers"),
    ),
)


def installed_version() -> str:
    """vLLM's version as its distribution says, "" when it is not installed."""
    try:
        return version("vllm")
    except PackageNotFoundError:
        return ""


def check_version(found: str) -> str | None:
    """One sentence if this vLLM is not one that we test."""
    tested = " or ".join(f"{minor}.x" for minor in TESTED_MINORS)
    if not found:
        return missing("vllm")
    if ".".join(found.split(".")[:2]) not in TESTED_MINORS:
        return f"vLLM {found} is not a version this scheduler is tested with; install vLLM {tested}"
    return None


def check_hooks(hooks: tuple[Hook, ...] = HOOKS) -> str | None:
    """One sentence if a function that we build on is gone or takes other parameters."""
    for hook in hooks:
        try:
            target: Any = import_module(hook.module)
            for part in hook.name.split("."):
                target = getattr(target, part)
            parameters = tuple(inspect.signature(target).parameters)
        except (ImportError, AttributeError):
            return f"vLLM's {hook.module}.{hook.name} is missing; install vLLM {TESTED_MINORS[-1]}.x"
        if parameters[: len(hook.parameters)] != hook.parameters:
            wanted, found = ", ".join(hook.parameters), ", ".join(parameters)
            remedy = f"install vLLM {TESTED_MINORS[-1]}.x"
            return f"vLLM's {hook.name} takes ({found}) where ({wanted}) is needed; {remedy}"
    return None


def check_config(config: Any) -> str | None:
    """One sentence if this engine, by its VllmConfig, is one that the planner cannot plan."""
    for row in CONFIG_ROWS:
        if row.refuses(config):
            return row.sentence
    return None
