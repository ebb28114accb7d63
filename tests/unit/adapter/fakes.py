"""Stand-ins for vLLM's requests and scheduler, with what the adapter reads and changes."""

from __future__ import annotations

import time
from collections import deque
from types import SimpleNamespace as Fake
from typing import Any

import numpy as np
from slidingserve.core.columns import CHUNKER, WINDOW_FULL, Decision
from slidingserve.vllm_adapter.held import Table
from slidingserve.vllm_adapter.observe import Observer, Seen

DEFAULT = (1.0, 0.1, False)


def request(name: str, *, tokens: int = 100, computed: int = 0, outputs: int = 0, **more: Any) -> Fake:
    promise = {"class": "a", "ttft_s": 0.5, "tbt_s": 0.04, "safeguard": False, "arrival": time.time()}
    fields: dict[str, Any] = {
        "request_id": name,
        "num_tokens": tokens + outputs,
        "num_prompt_tokens": tokens,
        "num_computed_tokens": computed,
        "num_output_tokens": outputs,
        "num_output_placeholders": 0,
        "num_in_flight_tokens": 0,
        "num_stale_output_tokens": 0,
        "drop_stale_output": False,
        "max_tokens": 100,
        "lora_request": None,
        "arrival_time": time.time(),
        "status": Fake(name="WAITING"),
        "sampling_params": Fake(extra_args={"slidingserve": promise}),
    }
    return Fake(**{**fields, **more})


def decode(name: str, **more: Any) -> Fake:
    return request(name, **{"computed": 100, "outputs": 1, **more})


def late(name: str, **more: Any) -> Fake:
    """A running prefill whose first token was due long ago."""
    made = request(name, **{"computed": 60, **more})
    made.sampling_params.extra_args["slidingserve"]["arrival"] = time.time() - 100
    return made


class Scheduler(Fake):
    """As vLLM's, as far as a step touches it."""

    @property
    def requests(self) -> dict[str, Fake]:
        return {one.request_id: one for one in (*self.running, *self.waiting, *self.kv_holding_waiting)}

    def _handle_blocked_waiting_request(self, blocked: Fake) -> bool:
        self.asked.append(blocked.request_id)
        blocked.status = Fake(name="WAITING")
        return True

    def _preempt_request(self, victim: Fake, timestamp: float) -> None:
        self.preempted.append(victim.request_id)
        self.free_blocks += victim.num_computed_tokens // self.block_size
        victim.num_computed_tokens, victim.status = 0, Fake(name="PREEMPTED")
        self.waiting.appendleft(victim)


def scheduler(running: list[Fake], waiting: list[Fake], **more: Any) -> Scheduler:
    made = Scheduler(
        **{
            "running": running,
            "waiting": deque(waiting),
            "kv_holding_waiting": deque(),
            "num_waiting_for_streaming_input": 0,
            "max_num_scheduled_tokens": 512,
            "max_num_active_reqs": 8,
            "block_size": 16,
            "free_blocks": 10,
            "lora_config": None,
            "asked": [],
            "preempted": [],
            "observer": Observer(Table(lambda prompt: DEFAULT)),
            **more,
        }
    )
    made.kv_cache_manager = Fake(block_pool=Fake(get_num_free_blocks=lambda: made.free_blocks))
    return made


def view(engine: Scheduler) -> Seen:
    seen: Seen = engine.observer.observe(engine, time.monotonic(), 0.0)
    return seen


def ids(requests: Any) -> list[str]:
    return [one.request_id for one in requests]


def decision(
    seen: Seen, tokens: dict[str, int], order: list[str], relegated: frozenset[str] = frozenset()
) -> Decision:
    """A decision by name; every name in `order` prefills or waits."""
    names = ids(seen.requests)
    return Decision(
        tokens=np.array([tokens.get(name, 0) for name in names], np.int64),
        order=np.array([names.index(name) for name in order], np.int64),
        relegated=np.array([name in relegated for name in names], np.bool_),
        budget=sum(tokens.values()),
        seconds=0.1,
        branch=CHUNKER,
        reason=WINDOW_FULL,
    )
