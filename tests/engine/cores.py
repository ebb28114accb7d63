"""vLLM's real EngineCore and scheduler without a model: an executor that sleeps instead of computing.

Steps are driven by hand in this process, so a test sees each of them, with asynchronous scheduling on or off.
"""

from __future__ import annotations

import gc
import json
import queue
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from slidingserve.server.launch import SCHEDULER
from slidingserve.server.runtime import Runtime
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

BATCH = 256
TOKEN = 65


class SleepingExecutor(Executor):  # type: ignore[misc]  # vLLM is untyped here
    """Sleeps for a batch, then "samples" one token for each request whose known tokens are all computed."""

    supports_pp = False
    asynchronous = False
    kv_bytes = 1 << 26
    step_seconds, token_seconds = 0.002, 0.00002

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    def _init_executor(self) -> None:
        # The CPU platform switches it off before this; class and queue are chosen after it.
        self.scheduler_config.async_scheduling = self.asynchronous
        self.log: list[tuple[int, float]] = []
        self._progress: dict[str, list[int]] = {}
        self._work: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        while True:
            batch, result = self._work.get()
            begin = time.monotonic()
            time.sleep(self.step_seconds + self.token_seconds * batch.total_num_scheduled_tokens)
            self.log.append((batch.total_num_scheduled_tokens, time.monotonic() - begin))
            result.set_result(self._sample(batch))

    def _sample(self, batch: Any) -> ModelRunnerOutput:
        for new in batch.scheduled_new_reqs:
            self._progress[new.req_id] = [new.num_computed_tokens, len(new.prompt_token_ids)]
        cached = batch.scheduled_cached_reqs
        for name, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if name in cached.resumed_req_ids:
                self._progress[name][0] = computed
        tokens = []
        for name, count in batch.num_scheduled_tokens.items():
            state = self._progress[name]
            state[0] += count
            known = state[1]
            tokens.append([TOKEN] if state[0] >= known else [])
            state[1] += len(tokens[-1])
        names = list(batch.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: place for place, name in enumerate(names)},
            sampled_token_ids=tokens,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        future: Future[Any] = Future()
        if scheduler_output.total_num_scheduled_tokens:
            self._pending = scheduler_output
            future.set_result(None)
        else:
            empty = ModelRunnerOutput([], {}, [], None, {}, [])
            future.set_result(empty)
        return future if non_block else future.result()

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        future: Future[Any] = Future()
        self._work.put((self._pending, future))
        return future if non_block else future.result()

    def get_kv_cache_specs(self) -> Any:
        spec = FullAttentionSpec(block_size=16, num_kv_heads=4, head_size=64, dtype=torch.bfloat16)
        return [{"layer": spec}]

    def determine_available_memory(self) -> list[int]:
        return [self.kv_bytes]

    def get_supported_kv_cache_layouts(self) -> Any:
        return [["LBNHC"]]

    def initialize_from_config(self, kv_cache_configs: Any) -> None: ...

    def compile_or_warm_up_model(self) -> None: ...

    def collective_rpc(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        return [None]

    def check_health(self) -> None: ...

    @property
    def supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)


def write_config(directory: Path, generation: int = 1, **scheduler: Any) -> None:
    """The configuration of a core under test."""
    document = {
        "schemaVersion": 1,
        "generation": generation,
        "classes": [{"name": "default", "ttftMilliseconds": 1000, "tbtMilliseconds": 100}],
        "defaultClass": "default",
        "scheduler": scheduler,
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "new").write_text(json.dumps(document))
    (directory / "new").replace(directory / "slidingserve.json")


class Core:
    """An EngineCore that a test steps by hand."""

    def __init__(
        self,
        model: Path,
        directory: Path,
        monkeypatch: Any,
        *,
        stock: bool = False,
        asynchronous: bool = False,
        sleeps: bool = True,
        kv_bytes: int = 1 << 26,
        watermark: float = 0.0,
        executor: Any = None,
        engine: dict[str, Any] | None = None,
        **scheduler: Any,
    ) -> None:
        """`scheduler`: the settings of slidingserve.json. `stock`: vLLM's own scheduler. `engine`: arguments
        over these. `sleeps`: a batch takes time."""
        self.config_dir = directory / "config"
        write_config(self.config_dir, **scheduler)
        runtime = Runtime(directory, self.config_dir)
        runtime.process_dir.mkdir(parents=True, exist_ok=True)
        for name, value in runtime.to_env().items():
            monkeypatch.setenv(name, value)
        if executor is None:
            settings = {"asynchronous": asynchronous, "kv_bytes": kv_bytes}
            at_once = {} if sleeps else {"step_seconds": 0, "token_seconds": 0}
            executor = type("Executor", (SleepingExecutor,), {**settings, **at_once})
        options: dict[str, Any] = {
            "max_model_len": 2048,
            "max_num_seqs": 8,
            "max_num_batched_tokens": BATCH,
            "enable_prefix_caching": False,
            **(engine or {}),
        }
        arguments = EngineArgs(
            model=str(model),
            enforce_eager=True,
            scheduler_cls=None if stock else SCHEDULER,
            distributed_executor_backend=executor,
            watermark=watermark,
            **options,
        )
        with _no_collection():
            self.core = EngineCore(arguments.create_engine_config(), executor, True)
        self.scheduler: Any = self.core.scheduler
        self.steps: list[dict[str, int]] = []
        self.tokens: dict[str, int] = {}
        self.ids: dict[str, list[int]] = {}
        self._record()

    @property
    def agent(self) -> Any:
        return self.scheduler.agent

    def add(self, name: str, prompt: int | list[int], output: int = 4, **promise: Any) -> None:
        """A request of that many tokens, or these; `promise` goes to `extra_args` as the front end would
        write it."""
        extra = {"slidingserve": promise} if promise else None
        params = SamplingParams(max_tokens=output, ignore_eos=True, extra_args=extra, temperature=0)
        ids = [5] * prompt if isinstance(prompt, int) else prompt
        self.core.add_request(Request(name, ids, params, None, block_hasher=self.core.request_block_hasher))

    def close(self) -> None:
        with _no_collection():
            self.core.shutdown()

    def step(self) -> None:
        outputs, _ = self.core.step_fn()
        for output in (outputs or {}).get(0, _NOTHING).outputs:
            self.ids.setdefault(output.request_id, []).extend(output.new_token_ids)
            self.tokens[output.request_id] = len(self.ids[output.request_id])

    def drain(self, most: int = 2000) -> None:
        """Step until no request is left."""
        for _ in range(most):
            if not self.scheduler.has_requests() and not self.core.batch_queue:
                return
            self.step()
        raise AssertionError(f"requests are left after {most} steps: {self.scheduler.get_request_counts()}")

    def _record(self) -> None:
        schedule = self.scheduler.schedule

        def recorded(throttle_prefills: bool = False) -> Any:
            output = schedule(throttle_prefills)
            self.steps.append(dict(output.num_scheduled_tokens))
            return output

        self.scheduler.schedule = recorded


def _no_collection() -> Any:
    """vLLM collects garbage four times in an engine's life: of all that it imported, half a second each."""
    return mock.patch.object(gc, "collect")


class _Nothing:
    outputs: tuple[()] = ()


_NOTHING: Any = _Nothing()
