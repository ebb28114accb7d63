"""The time axis of a workload: Poisson, the trace's own, or two rates in turn (Figure 6).

Poisson and switching arrivals come from the same unit exponentials, stretched by the rate: another rate moves
the requests along the time axis and changes nothing else (common random numbers), so that a search over rates
compares like with like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from slidingserve.workloads.trace import Floats, WorkloadError

Arrivals = Literal["poisson", "trace", "switching"]
MOST_REQUESTS = 10_000_000
RATES = (1e-6, 1e6)
"""The lowest and the highest, requests a second."""
_SHORTEST = 1e-6
ARRIVALS: tuple[str, ...] = get_args(Arrivals)


@dataclass(frozen=True, slots=True)
class Switching:
    """Two Poisson rates in turn, low first: rates in 1/s, times in s. The defaults are Figure 6's."""

    low: float = 1.0
    high: float = 2.5
    period: float = 120.0
    """How long each rate lasts."""
    total: float = 1200.0
    """Where it ends, if no number of requests is asked for."""

    def __post_init__(self) -> None:
        for name in ("low", "high", "period", "total"):
            value = getattr(self, name)
            if not RATES[0] <= value <= RATES[1] * 100:
                raise WorkloadError(f"switching {name} {value!r}: must be above 0, from 1e-6 on")

    def scaled(self, qps: float) -> Switching:
        """The same two rates in proportion, with a mean of ``qps``."""
        factor = check_qps(qps) / ((self.low + self.high) / 2)
        return Switching(self.low * factor, self.high * factor, self.period, self.total)


def check_qps(qps: float) -> float:
    """The rate, or WorkloadError."""
    if not RATES[0] <= qps <= RATES[1]:
        raise WorkloadError(f"qps {qps!r}: must be above 0 requests a second, from 1e-6 to 1e6")
    return float(qps)


def check_requests(requests: int) -> int:
    """The number of requests, or WorkloadError."""
    if not 1 <= requests <= MOST_REQUESTS:
        raise WorkloadError(f"requests {requests}: must be 1 or more, up to {MOST_REQUESTS:,}")
    return requests


def poisson(requests: int, qps: float, rng: np.random.Generator) -> Floats:
    """``requests`` arrivals at ``qps`` a second, from the first gap on (s)."""
    return np.cumsum(rng.standard_exponential(check_requests(requests))) / check_qps(qps)


def switching(requests: int | None, plan: Switching, rng: np.random.Generator) -> Floats:
    """Arrivals of a Poisson process with two rates in turn: the first ``requests``, or all before ``total``.

    The unit exponentials' sum is the expected count so far; its inverse is the time.
    """
    if requests is not None:
        return plan_times(np.cumsum(rng.standard_exponential(check_requests(requests))), plan)
    # The expected count and ten of its deviations: enough, and the same draws for every total.
    expected = plan.total * max(plan.low, plan.high)
    enough = check_requests(int(expected + 10 * np.sqrt(expected) + 10))
    times = plan_times(np.cumsum(rng.standard_exponential(enough)), plan)
    times = times[times < plan.total]
    if not times.size:
        raise WorkloadError(f"switching total {plan.total:g} s: no request comes in it; raise the rates")
    return times


def plan_times(counts: Floats, plan: Switching) -> Floats:
    """The times (s) at which the expected number of arrivals reaches ``counts``."""
    low, both = plan.low * plan.period, (plan.low + plan.high) * plan.period
    cycles, rest = np.divmod(counts, both)
    within = np.where(rest < low, rest / plan.low, plan.period + (rest - low) / plan.high)
    return np.asarray(cycles * 2 * plan.period + within, dtype=np.float64)


def own(times: Floats, qps: float | None) -> Floats:
    """A trace's own arrivals from 0 on; with ``qps`` the axis is stretched to that mean rate.

    The rate of n requests counts their n - 1 gaps. Requests that all come at one moment cannot be stretched.
    """
    times = times - times[0] if times.size else times
    if qps is None:
        return times
    check_qps(qps)
    if times.size < 2 or times[-1] < _SHORTEST:
        raise WorkloadError(f"qps {qps!r}: the trace's own arrivals span no time; use arrivals poisson")
    return np.asarray(times * ((times.size - 1) / times[-1] / qps), dtype=np.float64)


def generated(
    arrivals: str, requests: int | None, qps: float | None, switch: Switching | None, rng: np.random.Generator
) -> Floats:
    """Poisson or switching times. None requests: as many as switching rates bring within their total."""
    if arrivals == "switching":
        plan = switch or Switching()
        return switching(requests, plan if qps is None else plan.scaled(qps), rng)
    if arrivals != "poisson":
        raise WorkloadError(f"arrivals {arrivals!r}: is none of {', '.join(ARRIVALS)}")
    if qps is None:
        raise WorkloadError("qps: Poisson arrivals need a rate, as in --qps 1.5")
    if requests is None:
        raise WorkloadError("requests: Poisson arrivals go on without end; say how many")
    return poisson(requests, qps, rng)
