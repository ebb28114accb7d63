"""Recorded vLLM runs, replayed in the simulator with vLLM's own order on the same GPU's profile."""

from __future__ import annotations

import numpy as np
import pytest
from slidingserve import hardware
from slidingserve.core.columns import Floats
from slidingserve.hardware import recorded
from slidingserve.sim.config import SimConfig
from slidingserve.sim.run import run
from slidingserve.workloads import Trace

BOUNDS = {"ttft": (3, 7.5, 3, 3), "tpot": (1.5, 2, 6, 2), "e2e": (3, 6.5, 3, 3)}
"""Percent by which the mean and the percentiles 50, 90 and 99 may differ. Both runs are overloaded, so that
small errors in batch times add up in the queue; the percentiles furthest off lie where few requests do."""


@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_run_is_met_within_a_few_percent(name: str) -> None:
    real = recorded.get(name)
    count = len(real.arrival)
    trace = Trace(
        arrival=real.arrival,
        prompt_tokens=real.prompt_tokens,
        output_tokens=real.output_tokens,
        slo_class=np.zeros(count, np.int64),
        class_names=("any",),
        prefix_ids=np.zeros(0, np.int64),
        prefix_offsets=np.zeros(count + 1, np.int64),
        prefix_block=512,
    )
    config = SimConfig(
        hardware.get(name),
        "fcfs",
        max_tokens=real.max_tokens,
        max_requests=real.max_requests,
        kv_tokens=real.kv_tokens,
        async_scheduling=True,
        noise=0.0,
    )
    limit = np.full(count, 1e4)
    times = run(trace, limit, limit, config).times
    ends = np.cumsum(real.output_tokens)
    first, last = times[ends - real.output_tokens], times[ends - 1]
    ours = {
        "ttft": first - real.arrival,
        "tpot": (last - first) / (real.output_tokens - 1),
        "e2e": last - real.arrival,
    }
    for metric, bounds in BOUNDS.items():
        error = 100 * (_summary(ours[metric]) / _summary(getattr(real, metric)) - 1)
        assert (np.abs(error) <= bounds).all(), f"{metric}: {error.round(1)} %"


def _summary(values: Floats) -> Floats:
    return np.array([values.mean(), *np.percentile(values, [50, 90, 99])])
