"""How long batches take on real GPUs, from public measurements: for the simulator and the timed executor.

`get(name)` gives a profile, `batch_seconds` the time of a batch on it, `solo_seconds` the base of slowdowns.
"""

from slidingserve.hardware.base import (
    NVLINK,
    PCIE,
    PCIE5,
    Hardware,
    with_allreduce,
    with_host,
    with_mixed_penalty,
    with_noise,
    with_overhead,
)
from slidingserve.hardware.profiles import get, names
from slidingserve.hardware.solo import solo_seconds
from slidingserve.hardware.timing import Timing, batch_seconds

__all__ = [
    "NVLINK",
    "PCIE",
    "PCIE5",
    "Hardware",
    "Timing",
    "batch_seconds",
    "get",
    "names",
    "solo_seconds",
    "with_allreduce",
    "with_host",
    "with_mixed_penalty",
    "with_noise",
    "with_overhead",
]
