"""Small engines and traces for the simulator's tests: batches that take what the test says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from slidingserve import hardware as hardware_profiles
from slidingserve.core.columns import Floats, Ints
from slidingserve.hardware import Hardware
from slidingserve.sim import PredictorConfig, SimConfig
from slidingserve.workloads import Trace


def hardware(*, step: float = 0.02, token: float = 5e-5, kv_tokens: int = 320_000) -> Hardware:
    """A batch takes `step` seconds and `token` more for each of its tokens, whatever they attend to."""
    profile = hardware_profiles.get("rtx4090-tp1-llama3.1-8b")
    timing = profile.timing._replace(
        dense=np.arange(4097) * np.float64(token),
        dense_slope=token,
        head=np.zeros_like(profile.timing.head),
        head_slope=0.0,
        attention=np.zeros_like(profile.timing.attention),
        communication=0.0,
        communication_slope=0.0,
        host=step,
    )
    return replace(
        profile, name="toy", timing=timing, kv_tokens=kv_tokens, max_tokens=2048, max_requests=256,
        noise_sigma=0.0,
    )  # fmt: skip


def engine(policy: str = "fcfs", **changes: object) -> SimConfig:
    """A quiet engine whose predictor stays as it starts."""
    config = SimConfig(hardware(), policy, predictor=PredictorConfig(refresh_seconds=None, samples=64))
    return replace(config, **changes)  # type: ignore[arg-type]  # names of its fields


def trace(arrival: object, prompt: object, output: object, **more: object) -> Trace:
    """Requests from arrays or numbers."""
    times = np.asarray(arrival, np.float64)
    sizes: list[Ints] = [
        np.broadcast_to(np.asarray(value, np.int64), times.shape).copy() for value in (prompt, output)
    ]
    prompts, outputs = sizes
    return Trace(times, prompts, outputs, np.zeros(len(times), np.int64), **more)  # type: ignore[arg-type]


def poisson(requests: int, rate: float, seed: int = 0) -> Floats:
    """Arrival times."""
    return np.random.default_rng(seed).exponential(1 / rate, requests).cumsum()


def busy(requests: int = 400, rate: float = 3.0, seed: int = 0) -> Trace:
    """A mix of prompts and outputs that keeps the engine busy."""
    draw = np.random.default_rng(seed + 1)
    return trace(
        poisson(requests, rate, seed), draw.integers(16, 3000, requests), draw.integers(1, 200, requests)
    )


def limits(of: Trace, ttft: float = 2.0, tbt: float = 0.08) -> tuple[Floats, Floats]:
    """The same promise for everybody."""
    return np.full(len(of), ttft), np.full(len(of), tbt)
