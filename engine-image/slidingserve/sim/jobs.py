"""One run as something that can be named, sent to another process and remembered.

A run's key is a hash of all that decides its result, the simulating code included, so that a result found
under it is the result.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from slidingserve.core.columns import Floats
from slidingserve.sim import metrics
from slidingserve.sim.config import SimConfig
from slidingserve.sim.result import Result
from slidingserve.sim.run import run
from slidingserve.workloads import Trace

Summary = dict[str, Any]
"""`metrics.summary` of a run, and who missed."""

_PACKAGE = Path(__file__).resolve().parent.parent
_DECISIVE = ("core", "policies", "predictor", "hardware", "sim")
_FRONT = ("commands", "compare", "goodput", "options", "output", "pool", "progress", "store")
"""Modules of sim that decide no result."""


@dataclass(frozen=True, eq=False)
class Job:
    """One run to be made."""

    config: SimConfig
    trace: Trace
    ttft: Floats
    tbt: Floats
    seed: int

    @property
    def key(self) -> str:
        """Its name in a store."""
        digest = hashlib.sha256(code_version().encode())
        digest.update(config_text(self.config).encode())
        digest.update(f"{self.trace.digest()} {self.seed}".encode())
        digest.update(np.ascontiguousarray(self.ttft).tobytes() + np.ascontiguousarray(self.tbt).tobytes())
        return digest.hexdigest()[:40]


def execute(job: Job) -> Summary:
    """Run it."""
    result = run(job.trace, job.ttft, job.tbt, job.config, job.seed)
    return {**metrics.summary(result), "missed": bits(result)}


def bits(result: Result) -> str:
    """Who missed, in hexadecimal: for comparisons in pairs."""
    return np.packbits(result.missed).tobytes().hex()


def missed(summary: Summary) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The inverse of `bits`, shape n."""
    count = int(summary["overall"]["requests"])
    packed = np.frombuffer(bytes.fromhex(summary["missed"]), np.uint8)
    return np.unpackbits(packed, count=count).astype(np.bool_)


def tallies(summary: Summary) -> dict[str, metrics.Tally]:
    """Misses by class of a run that is remembered."""
    return {name: _tally(group) for name, group in summary["classes"].items()}


def _tally(group: dict[str, Any]) -> metrics.Tally:
    return metrics.Tally(*(int(group[name]) for name in metrics.Tally._fields))


def config_text(config: SimConfig) -> str:
    """Everything in a config, as one line."""
    hardware = {
        f.name: getattr(config.hardware, f.name) for f in fields(config.hardware) if f.name != "timing"
    }
    timing = hashlib.sha256()
    for part in config.hardware.timing:
        timing.update(np.ascontiguousarray(part).tobytes())
    rest = {f.name: getattr(config, f.name) for f in fields(config) if f.name not in _NESTED}
    nested = {name: asdict(getattr(config, name)) for name in ("settings", "predictor")}
    return json.dumps([hardware, timing.hexdigest(), rest, nested], sort_keys=True, default=str)


_NESTED = ("hardware", "settings", "predictor")


@cache
def code_version() -> str:
    """A digest of the code and data that decide results, and of the libraries that compute them."""
    digest = hashlib.sha256(f"{np.__version__} {numba.__version__}".encode())
    for part in _DECISIVE:
        for path in sorted((_PACKAGE / part).rglob("*")):
            place = path.relative_to(_PACKAGE)
            ours = path.suffix == ".py" or "data" in place.parts
            front = part == "sim" and place.parts[1].removesuffix(".py") in _FRONT
            if ours and not front and path.is_file():
                digest.update(place.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
