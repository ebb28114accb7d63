"""The general plugin: what vLLM loads in each of its processes, and the few functions of vLLM that we wrap
there.

API servers: the gate on the finished configuration, the promise into each request, the tokens back to their
tracker. Engine cores: two methods that API servers call between steps, and a short end. All, workers too: an
ear for their last words.
"""

from __future__ import annotations

import functools
import gc
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slidingserve.processor import ProcessorError
from slidingserve.server.emulation import Emulation
from slidingserve.server.launch import LaunchError
from slidingserve.server.runtime import NO_HOOKS, Runtime
from slidingserve.vllm_adapter import beams, cpu_features
from slidingserve.vllm_adapter.failure import listen, serve_api, watch_core, watch_workers
from slidingserve.vllm_adapter.shield import keep_seeds, shield

if TYPE_CHECKING:
    from slidingserve.server.attainment import Tracker

logger = logging.getLogger("vllm.slidingserve")

ALL_IN_ONE = "VLLM_ENABLE_V1_MULTIPROCESSING"
_MARK = "__slidingserve__"
POSITION_OF_TARGET = 7
"""Of `target_server_fn` among the arguments of vLLM's APIServerProcessManager, from 1; it calls it by names.
"""
_ENDED_BADLY = ("ABORT", "ERROR")


def register() -> None:
    """Entry point of `vllm.general_plugins`; may be called more than once in a process."""
    runtime = Runtime.from_env()
    if runtime is None:
        return
    listen(runtime)
    shield()
    if _on_cpu():
        cpu_features.prepare()
    if _runs_a_model() and _on_cpu():
        keep_seeds()
    if os.environ.get(NO_HOOKS) or _is_worker():
        return
    from vllm.engine.arg_utils import EngineArgs
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.engine.input_processor import InputProcessor
    from vllm.v1.engine.output_processor import OutputProcessor
    from vllm.v1.engine.utils import CoreEngineProcManager
    from vllm.v1.executor.multiproc_executor import WorkerProc
    from vllm.v1.utils import APIServerProcessManager

    _wrap(EngineArgs, "create_engine_config", gate_config)
    for request in (CompletionRequest, ResponsesRequest):
        _wrap(request, "to_sampling_params", note_unpromised)
    _wrap(InputProcessor, "process_inputs", write_promise)
    _wrap(OutputProcessor, "add_request", follow_request)
    _wrap(OutputProcessor, "process_outputs", count_tokens)
    _wrap(EngineCore, "shutdown", end_core)
    _wrap(CoreEngineProcManager, "monitor_engine_liveness", watch_core)
    _wrap(APIServerProcessManager, "__init__", listen_to_api_servers)
    if not getattr(WorkerProc.wait_for_ready, _MARK, False):
        watched = functools.partial(watch_workers, WorkerProc.wait_for_ready)
        setattr(watched, _MARK, True)
        WorkerProc.wait_for_ready = staticmethod(watched)
    EngineCore.slidingserve_ping = _ping
    EngineCore.slidingserve_calibration = _calibration


def _runs_a_model() -> bool:
    """Whether this process may hold a model: a core, a worker, or one that does everything itself."""
    name = multiprocessing.current_process().name
    return name.startswith(("EngineCore", "VllmWorker", "Worker")) or os.environ.get(ALL_IN_ONE) == "0"


def _on_cpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _is_worker() -> bool:
    return multiprocessing.current_process().name.startswith(("VllmWorker", "Worker"))


def _wrap(owner: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace `owner.name` by a function that calls `wrapper(original, self, ...)`, once."""
    original = getattr(owner, name)
    if getattr(original, _MARK, False):
        return

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(original, self, *args, **kwargs)

    setattr(wrapped, _MARK, True)
    setattr(owner, name, wrapped)


def gate_config(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """The configuration is complete, nothing has started: ask the gate whether this engine can be planned."""
    from slidingserve.vllm_adapter import gate
    from slidingserve.vllm_adapter.entry import refuse, step_back

    config = original(self, *args, **kwargs)
    runtime = Runtime.from_env()
    if Emulation.from_env() is not None:
        # vLLM's CPU platform switches it off; on a GPU it is on unless the user says no.
        config.scheduler_config.async_scheduling = self.async_scheduling is not False
    elif runtime is not None and _on_cpu():
        try:
            logger.info(cpu_features.told())
        except ProcessorError as error:
            refuse(runtime, LaunchError(str(error)))
    reason = gate.check_config(config)
    if runtime is None or (not reason and not runtime.fallback_reason):
        return config
    if reason and not runtime.fallback_allowed:
        refuse(runtime, LaunchError(f"{reason}, or start with --fallback to serve with vLLM's own scheduler"))
    if reason and not runtime.fallback_reason:
        step_back(reason)
    config.scheduler_config.scheduler_cls = None
    return config


def end_core(original: Callable[..., Any], self: Any) -> None:
    """Spare a core's process that ends the search of its whole heap for garbage.

    Python does so several times on its way out: seconds of CPU, on a busy machine a minute, in which no next
    pod gets the accelerator. The end of the process frees all of it. vLLM does the same, on ROCm alone.
    """
    original(self)
    if multiprocessing.current_process().name.startswith("EngineCore"):
        gc.freeze()


def listen_to_api_servers(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Several API servers are processes of their own: hear what ends them."""
    if kwargs.get("target_server_fn") is None and len(args) < POSITION_OF_TARGET:
        kwargs["target_server_fn"] = serve_api
    original(self, *args, **kwargs)


def note_unpromised(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    """An API's request becomes sampling parameters, which no longer say whether its client waits for tokens:
    not where its prompt is only echoed, nor where a response is made in the background."""
    from slidingserve.server.attainment import CURRENT

    tracker = CURRENT.get()
    echoes = getattr(self, "echo", False) and getattr(self, "max_tokens", None) == 0
    if tracker is not None and (echoes or getattr(self, "background", False)):
        tracker.promised = False
    return original(self, *args, **kwargs)


def write_promise(
    original: Callable[..., Any],
    self: Any,
    request_id: str,
    prompt: Any,
    params: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Every prompt of every API passes here: freeze its promise in `extra_args`, over whatever a client put
    there."""
    from vllm.exceptions import VLLMClientError, VLLMValidationError

    from slidingserve.server import frontend
    from slidingserve.server.attainment import CURRENT
    from slidingserve.server.promise import KEY, PromiseError

    try:
        request = original(self, request_id, prompt, params, *args, **kwargs)
    except (VLLMClientError, ValueError, TypeError, OverflowError):  # what vLLM answers with a 400
        _refused(CURRENT.get())
        raise
    front, sampling = frontend.get(), request.sampling_params
    if front is None or sampling is None:
        return request
    asks = sampling.logprobs is not None or sampling.prompt_logprobs is not None
    if asks and Emulation.from_env() is not None:
        raise VLLMValidationError("an emulated engine has no logprobs", parameter="logprobs")
    tracker = CURRENT.get()
    extra = dict(sampling.extra_args or {})
    length = len(request.prompt_token_ids or ()) or (
        len(request.prompt_embeds) if request.prompt_embeds is not None else 0
    )
    try:
        promise = front.promise(tracker, extra, length)
    except PromiseError as error:
        _refused(tracker)
        raise VLLMValidationError(str(error), parameter=error.param) from None
    extra[KEY] = beams.due(tracker, promise, request_id).to_extra(
        tracker.arrival_wall if tracker else time.time()
    )
    sampling.extra_args = extra
    if tracker is not None:
        tracker.promises[request_id] = promise
    return request


def _refused(tracker: Tracker | None) -> None:
    if tracker is not None:
        tracker.refused = True


def follow_request(original: Callable[..., Any], self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    """A sequence was accepted (each of n has its own call): follow its tokens."""
    from slidingserve.server.attainment import CURRENT

    result = original(self, request, *args, **kwargs)
    tracker = CURRENT.get()
    sampling = request.sampling_params
    followed = self.__dict__.setdefault("slidingserve_followed", {})
    if tracker is None or tracker.closed or sampling is None:
        return result
    if request.request_id not in followed:
        promise = tracker.promises.get(request.external_req_id) or next(iter(tracker.promises.values()), None)
        sequence = None if promise is None else beams.sequence(tracker, promise, request.external_req_id)
        if sequence is not None:
            followed[request.request_id] = (tracker, sequence)
            tracker.forget.append(functools.partial(followed.pop, request.request_id, None))
    return result


def count_tokens(
    original: Callable[..., Any], self: Any, engine_core_outputs: Any, *args: Any, **kwargs: Any
) -> Any:
    """New tokens were delivered to their streams, cut at a stop string: count them for their trackers."""
    result = original(self, engine_core_outputs, *args, **kwargs)
    followed = self.__dict__.get("slidingserve_followed")
    if followed:
        made = (args[0] if args else kwargs.get("engine_core_timestamp")) or 0.0
        try:
            for output in engine_core_outputs:
                known = followed.get(output.request_id)
                if known is not None:
                    tracker, sequence = known
                    _count(self, output, tracker, sequence, made)
        except Exception:
            # An error here would end the loop that feeds every stream.
            logger.exception("slidingserve: counting tokens failed")
    return result


def _count(processor: Any, output: Any, tracker: Any, sequence: Any, made: float) -> None:
    if output.new_token_ids:
        tracker.generated(sequence, len(output.new_token_ids), made)
    reason = output.finish_reason
    # A stop string ends a request in the output processor alone; then only its state is gone.
    if reason is not None or output.request_id not in processor.request_states:
        sequence.ended_well = reason is None or reason.name not in _ENDED_BADLY
        processor.slidingserve_followed.pop(output.request_id, None)


def _ping(core: Any) -> bool:
    """Answered between steps: a busy core passes, a frozen one does not."""
    return True


def _calibration(core: Any, phase: str) -> str:
    """Calibrate; "stock" where vLLM's own scheduler runs, else "yes" or "no": is the predictor calibrated?"""
    agent = getattr(core.scheduler, "agent", None)
    if agent is None:
        return "stock"
    return "yes" if agent.calibration(phase) else "no"
