"""The simulator against formulas of queueing theory, which know nothing of it."""

from __future__ import annotations

import numpy as np
import pytest
from slidingserve import sim

from tests.unit.sim.engines import engine, hardware, limits, poisson, trace

SERVICE = 0.1


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_server_with_constant_service_waits_as_m_d_1_says(load: float) -> None:
    requests = 60_000
    one_by_one = engine(hardware=hardware(step=SERVICE, token=0.0), max_requests=1)
    of = trace(poisson(requests, load / SERVICE), 100, 1)
    result = sim.run(of, *limits(of), one_by_one)
    wait = float((result.ttft - SERVICE).mean())
    assert wait == pytest.approx(load * SERVICE / (2 * (1 - load)), rel=0.06)


def test_the_mean_number_of_requests_is_rate_times_mean_time() -> None:
    of = trace(poisson(4000, 3.0), 700, 60)
    result = sim.run(of, *limits(of), engine())
    moments = np.linspace(of.arrival[0], of.arrival[-1], 20_001)
    present = np.searchsorted(of.arrival, moments, "right") - np.searchsorted(
        np.sort(result.finish), moments, "right"
    )
    rate = len(of) / (of.arrival[-1] - of.arrival[0])
    assert float(present.mean()) == pytest.approx(rate * float(result.end_to_end.mean()), rel=0.02)
