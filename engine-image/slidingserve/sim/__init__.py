"""The simulator: the compiled policies on a hardware model instead of a GPU, thousands of steps a second.

A `workloads.Trace` with promises goes through `run` into a `Result`; `metrics` reads results, `goodput` and
`compare` make many runs of them, `command` is the command line. It never imports vLLM, but keeps to what
vLLM's scheduler and our adapter do.
"""

from slidingserve.sim.config import PredictorConfig, SimConfig, SimError
from slidingserve.sim.result import Result, Steps
from slidingserve.sim.run import run

__all__ = ["PredictorConfig", "Result", "SimConfig", "SimError", "Steps", "run"]
