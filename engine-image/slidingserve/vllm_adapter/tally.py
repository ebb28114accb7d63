"""What an engine core counts: its series of the metrics table, in one place."""

from __future__ import annotations

from typing import Any

from slidingserve import policies
from slidingserve.core.columns import BRANCHES
from slidingserve.predictor.features import Features, Scene
from slidingserve.server.metrics import series, touch
from slidingserve.vllm_adapter.clock import Batch


def touch_core(engine: str) -> None:
    """All series of a core, at zero."""
    touch(
        "core",
        engine=(engine,),
        policy=tuple(policies.names()),
        branch=(*BRANCHES, "fallback"),
        scene=tuple(scene.value for scene in Scene),
        phase=("waiting", "prefill", "decode"),
        role=("core",),
        result=("applied", "rejected"),
    )


def count_batch(engine: str, features: Features) -> None:
    """A batch left for the workers."""
    if features.prefill_tokens:
        series("chunk_tokens", engine).observe(features.prefill_tokens)
    series("batch_tokens", engine).observe(features.prefill_tokens + features.decode_requests)


def count_queues(engine: str, scheduler: Any) -> None:
    """Requests by phase, after a step."""
    running = len(scheduler.running)
    prefills = sum(1 for request in scheduler.running if request.is_prefill_chunk)
    series("queue_requests", engine, "waiting").set(
        len(scheduler.waiting) + len(scheduler.kv_holding_waiting)
    )
    series("queue_requests", engine, "prefill").set(prefills)
    series("queue_requests", engine, "decode").set(running - prefills)


def count_time(engine: str, batch: Batch, seconds: float) -> None:
    """A batch is back after `seconds`."""
    scene = batch.features.scene.value
    error = seconds - batch.predicted
    series("batch_seconds", engine, scene).observe(seconds)
    series("predicted_batch_seconds", engine, scene).observe(batch.predicted)
    series("predictor_error_seconds", engine, scene).observe(error)
    series("predictor_abs_error_seconds", engine, scene).observe(abs(error))
