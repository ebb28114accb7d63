"""Promises: from latency classes and solo times to a TTFT and a TBT limit for each request (Table 3).

Between a `Trace` and whoever judges it. Solo times come from outside (``hardware.solo``), so that every
policy is judged by the same promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slidingserve.workloads.trace import Floats, Trace, WorkloadError

_MOST = 1e9


@dataclass(frozen=True, slots=True)
class Slo:
    """The limits of a class: TTFT as a multiple of the solo time or in s (exactly one), TBT in s."""

    ttft_slowdown: float | None = None
    ttft_seconds: float | None = None
    tbt_seconds: float = 0.040

    def __post_init__(self) -> None:
        if (self.ttft_slowdown is None) == (self.ttft_seconds is None):
            raise WorkloadError("slo: give ttft_slowdown or ttft_seconds, and not both")
        for name in ("ttft_slowdown", "ttft_seconds", "tbt_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _MOST:
                raise WorkloadError(f"slo {name} {value!r}: must be above 0, up to {_MOST:g}")

    def ttft(self, solo_seconds: Floats | None, slo_class: str) -> Floats | float:
        """L_ttft in s; WorkloadError names the class if the solo time that it needs is not known."""
        if self.ttft_seconds is not None:
            return self.ttft_seconds
        if self.ttft_slowdown is None or solo_seconds is None:
            raise WorkloadError(
                f"slo: class {slo_class!r} is promised {self.ttft_slowdown:g} times the solo time, which is "
                "not known here; name a hardware profile, or give milliseconds"
            )
        return np.asarray(self.ttft_slowdown * solo_seconds, dtype=np.float64)

    def __str__(self) -> str:
        ttft = f"{self.ttft_slowdown:g}x" if self.ttft_seconds is None else f"{self.ttft_seconds * 1000:g}ms"
        return f"{ttft}/{self.tbt_seconds * 1000:g}ms"


PAPER: Mapping[str, Slo] = {
    "dialogue": Slo(ttft_slowdown=5.0, tbt_seconds=0.040),
    "summarization": Slo(ttft_slowdown=10.0, tbt_seconds=0.080),
}
"""Table 3."""


def promises(
    trace: Trace, solo_seconds: Floats | None, slos: Mapping[str, Slo] = PAPER
) -> tuple[Floats, Floats]:
    """L_ttft and L_tbt of each request, in seconds.

    ``solo_seconds`` (shape n) is the time to the first token of the request alone; None will do where no
    class that occurs is promised a slowdown. Raises WorkloadError for a class without an Slo.
    """
    n = len(trace)
    if solo_seconds is not None and solo_seconds.shape != (n,):
        raise WorkloadError(f"solo_seconds has shape {solo_seconds.shape}; the trace has {n} requests")
    ttft, tbt = np.zeros(n), np.zeros(n)
    for index in np.unique(trace.slo_class):
        name, rows = trace.class_names[index], trace.slo_class == index
        slo = slos.get(name)
        if slo is None:
            known = ", ".join(sorted(slos)) or "none"
            raise WorkloadError(
                f"slo: class {name!r} has requests but no promise (given: {known}); add --slo {name}=5x/40ms"
            )
        tbt[rows] = slo.tbt_seconds
        ttft[rows] = slo.ttft(None if solo_seconds is None else solo_seconds[rows], name)
    return ttft, tbt
