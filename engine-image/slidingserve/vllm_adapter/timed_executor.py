"""vLLM's executor of an emulated engine: batches take their time on an `emulated_device`, tokens are hashes.

Named to vLLM by `server.emulation` as `--distributed-executor-backend`. There is no worker process, no model
and no KV memory; scheduler, KV manager and API server are vLLM's and run as they do over a GPU, with
asynchronous scheduling (a queue of two batches) or without.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput

from slidingserve.server import emulation
from slidingserve.vllm_adapter.emulated_device import Batch, Device, digest, mixed, token

HARMLESS = (
    "update_max_model_len",
    "reset_mm_cache",
    "reset_encoder_cache",
    "set_kv_cache_layout",
    "synchronize_device",
    "shutdown",
)
"""Calls to workers that need nothing done where there are none."""


class Seen(NamedTuple):
    """What is kept of a request while it lives."""

    digest: int
    prompt_tokens: int


class Due(Future):  # type: ignore[type-arg]
    """A result that is there when its batch ends: whoever asks for it waits that long. No thread runs."""

    def __init__(self, device: Device, batch: Batch, output: ModelRunnerOutput) -> None:
        super().__init__()
        self._device, self._batch, self._output = device, batch, output

    def result(self, timeout: float | None = None) -> ModelRunnerOutput:
        """The output, at the batch's end."""
        self._device.wait(self._batch)
        return self._output


class TimedExecutor(Executor):
    """Sleeps for each batch as long as the profile says, then "samples" repeatable tokens."""

    supports_pp = False

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """As executors with a GPU do."""
        return True

    def _init_executor(self) -> None:
        wanted = emulation.Emulation.from_env()
        if wanted is None:
            raise RuntimeError(
                "TimedExecutor is started by `slidingserve serve --emulate`, not by vLLM alone"
            )
        self.hardware = emulation.checked(wanted)
        noise = self.hardware.noise_sigma if wanted.noise is None else wanted.noise
        self.device = Device(self.hardware, noise, wanted.seed, wanted.log)
        self._seen: dict[str, Seen] = {}
        self._pending: tuple[Batch, ModelRunnerOutput, dict[str, int]] | None = None

    # --- a step
    # -----------------------------------------------------------------------------------------------------
    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Hand the batch to the device; None stands for "sample next", as from vLLM's own runners."""
        for name in scheduler_output.finished_req_ids:
            self._seen.pop(name, None)
        result = None
        if scheduler_output.total_num_scheduled_tokens:
            self._pending = self._submit(scheduler_output)
        else:
            result = _output([], [])
        return _now(result) if non_block else result

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        """The tokens of the batch that was handed over last."""
        if self._pending is None:
            raise RuntimeError("sample_tokens without a batch")
        batch, output, positions = self._pending
        self._pending = None
        if grammar_output is not None:
            output = self._constrained(output, positions, grammar_output)
        due = Due(self.device, batch, output)
        return due if non_block else due.result()

    def _submit(self, step: Any) -> tuple[Batch, ModelRunnerOutput, dict[str, int]]:
        """Start a step's batch. Also gives the output positions of what it samples."""
        known = self._known(step)
        prefill: list[int] = []
        prefill_cached: list[int] = []
        decode: list[int] = []
        sampled: list[list[int]] = []
        positions: dict[str, int] = {}
        for name, count in step.num_scheduled_tokens.items():
            cached, outputs = known[name]
            if count == 1:
                decode.append(cached)  # to a kernel, a chunk of one token is a decode
            else:
                prefill.append(count)
                prefill_cached.append(cached)
            prompt = self._seen[name]
            if cached + count >= prompt.prompt_tokens + outputs:
                sampled.append([token(prompt.digest, outputs)])
                positions[name] = outputs
            else:
                sampled.append([])  # a part of a prompt
        batch = self.device.submit(prefill, prefill_cached, decode)
        return batch, _output(list(step.num_scheduled_tokens), sampled), positions

    def _known(self, step: Any) -> dict[str, tuple[int, int]]:
        """Tokens in the KV cache before the step, and outputs so far (in flight too), of each request in it.

        vLLM says both anew each step, so preemption, resumption and prefix hits need nothing of their own.
        """
        known: dict[str, tuple[int, int]] = {}
        for new in step.scheduled_new_reqs:
            self._seen[new.req_id] = seen = _see(new)
            # vLLM's second runner gets a resumed request as a new one, with its outputs.
            outputs = len(new.prefill_token_ids) - seen.prompt_tokens if new.prefill_token_ids else 0
            known[new.req_id] = (new.num_computed_tokens, outputs)
        old = step.scheduled_cached_reqs
        known.update(
            (name, (cached, outputs))
            for name, cached, outputs in zip(
                old.req_ids, old.num_computed_tokens, old.num_output_tokens, strict=True
            )
        )
        return known

    def _constrained(self, output: ModelRunnerOutput, positions: dict[str, int], grammar: Any) -> Any:
        """Structured output: take the token from those that the grammar allows next."""
        sampled = [list(ids) for ids in output.sampled_token_ids]
        for name, row in zip(grammar.structured_output_request_ids, grammar.grammar_bitmask, strict=False):
            if name in positions:
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                chosen = allowed[mixed(self._seen[name].digest, positions[name]) % len(allowed)]
                sampled[output.req_id_to_index[name]] = [int(chosen)]
        return replace(output, sampled_token_ids=sampled)

    # --- what vLLM asks at the start and beside steps
    # -----------------------------------------------------------------
    def get_kv_cache_specs(self) -> list[dict[str, FullAttentionSpec]]:
        """One worker with all layers and heads: what is split over GPUs is in the profile's times."""
        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size,
            num_kv_heads=self.hardware.kv_heads,
            head_size=self.hardware.head_size,
            dtype=torch.bfloat16,
        )
        return [{f"model.layers.{layer}": spec for layer in range(self.hardware.layers)}]

    def determine_available_memory(self) -> list[int]:
        """Bytes for exactly the profile's KV blocks."""
        specs = self.get_kv_cache_specs()[0].values()
        blocks = self.hardware.kv_tokens // self.cache_config.block_size
        return [blocks * sum(spec.page_size_bytes for spec in specs)]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        """Any would do."""
        return [["LBNHC"]]

    def initialize_from_config(self, kv_cache_configs: Any) -> None:
        """No memory is held."""

    def compile_or_warm_up_model(self) -> None:
        """Nothing is compiled."""

    def collective_rpc(self, method: Any, *args: Any, non_block: bool = False, **kwargs: Any) -> Any:
        """There are no workers; what needs one is refused by name."""
        if method not in HARMLESS:
            raise NotImplementedError(f"an emulated engine has no worker for {method}")
        return _now([None]) if non_block else [None]

    def check_health(self) -> None:
        """Always healthy."""

    def shutdown(self) -> None:
        """Write out the log."""
        self.device.close()

    @property
    def supported_tasks(self) -> tuple[str, ...]:
        """Of a decoder-only model."""
        return ("generate",)


def _see(new: Any) -> Seen:
    """Digest and length of a new request's prompt; sampling with a seed, or at random, has its own digest."""
    params = new.sampling_params
    ids = new.prompt_token_ids or ()
    salt = ""
    if params is not None and params.temperature > 0:
        salt = new.req_id if params.seed is None else str(params.seed)
    return Seen(digest(ids, salt), new.prompt_len)


def _output(names: list[str], sampled: list[list[int]]) -> ModelRunnerOutput:
    return ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: place for place, name in enumerate(names)},
        sampled_token_ids=sampled,
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )


def _now(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
