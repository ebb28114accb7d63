"""One measurement through slidingserve.sim: the only module here that simulates. Runs in worker processes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from slidingserve import hardware, sim, workloads
from slidingserve.hardware import Hardware
from slidingserve.policies import PolicySettings
from slidingserve.predictor.calibration import default_model
from slidingserve.predictor.online import Window, fit, predict_all
from slidingserve.predictor.quality import Quality, score
from slidingserve.sim import metrics
from slidingserve.workloads import slo
from slidingserve.workloads.arrivals import Switching

from benchmarks.paper.experiments import Where
from benchmarks.paper.grid import highest, rate
from benchmarks.paper.jobs import Measurement
from benchmarks.paper.store import Metrics

LATENCIES = ("ttft", "tbt", "tpot", "longest_gap", "e2e")
SHARES = (50, 95, 99)
BIN_SECONDS = 30.0
"""Width of Figure 6's time axis."""
_PREDICTOR = {field.name for field in fields(sim.PredictorConfig)}


def measure(measurement: Measurement, start: float | None = None) -> Metrics:
    """The metrics of one measurement; `start`: about where a search will end, in requests a second."""
    if measurement.kind == "goodput":
        return goodput(measurement, start)
    if measurement.kind == "errors":
        return errors(measurement)
    return load(measurement)


def machine(where: Where) -> Hardware:
    """The hardware profile under the experiment's conditions."""
    profile = hardware.with_overhead(hardware.get(where.hardware), where.slo_base_ms / 1000)
    if where.noise is not None:
        profile = hardware.with_noise(profile, where.noise)
    return hardware.with_allreduce(profile, *hardware.NVLINK) if where.nvlink else profile


def engine(measurement: Measurement) -> sim.SimConfig:
    """The simulated engine: settings of the policy, and of its predictor where they are the predictor's."""
    options = dict(measurement.setting)
    learning: dict[str, Any] = {name: options.pop(name) for name in list(options) if name in _PREDICTOR}
    if measurement.fit is not None:
        learning["fit_seed"] = measurement.fit
    return sim.SimConfig(
        hardware=machine(measurement.where),
        policy=measurement.policy,
        settings=PolicySettings(**options),
        async_scheduling=measurement.where.async_scheduling,
        predictor=sim.PredictorConfig(**learning),
    )


def simulate(
    measurement: Measurement, config: sim.SimConfig, qps: float | None, *, steps: bool = False
) -> sim.Result:
    """One run at a rate, or under the switching load."""
    trace = workloads.get(
        measurement.where.workload,
        requests=None if qps is None else measurement.requests,
        qps=qps,
        seed=measurement.seed,
        arrivals="switching" if qps is None else "poisson",
    )
    limits = slo.promises(trace, hardware.solo_seconds(config.hardware, trace.prompt_tokens))
    return sim.run(trace, *limits, config, seed=measurement.seed, steps=steps)


def goodput(measurement: Measurement, start: float | None) -> Metrics:
    """The highest rate, on a grid of steps of the tolerance, at which the criterion holds."""
    config = engine(measurement)
    judged: dict[int, bool] = {}

    def holds(step: int) -> bool:
        if step not in judged:
            result = simulate(measurement, config, rate(step, measurement.tolerance))
            judged[step] = metrics.within_goodput(metrics.tallies(result), measurement.criterion)
        return judged[step]

    best = highest(holds, start, measurement.tolerance)
    value = 0.0 if best is None else rate(best, measurement.tolerance)
    return [{"metric": "goodput_qps", "value": value, "n": measurement.requests}]


def load(measurement: Measurement) -> Metrics:
    """Misses and latencies at one rate; under the switching load also the misses over time."""
    result = simulate(measurement, engine(measurement), measurement.qps)
    tally = metrics.overall(metrics.tallies(result))
    low, high = tally.interval
    found: Metrics = [
        {
            "metric": "violations_percent",
            "value": 100 * tally.share,
            "ci_low": 100 * low,
            "ci_high": 100 * high,
            "n": tally.requests,
        }
    ]
    for name, each in metrics.tallies(result).items():
        found.append({"metric": f"violations_percent_{name}", "value": 100 * each.share, "n": each.requests})
    summary = metrics.summary(result)["overall"]
    for name in LATENCIES:
        found += [{"metric": f"{name}_p{p}_s", "value": summary[f"{name}_p{p}_s"]} for p in SHARES]
    return found if measurement.qps is not None else [*found, *over_time(result)]


def over_time(result: sim.Result) -> Metrics:
    """Requests that arrived so far and miss, by time of arrival."""
    plan = Switching()
    found: Metrics = []
    for time in np.arange(0.0, plan.total + 1, BIN_SECONDS).tolist():
        so_far = int(result.missed[result.trace.arrival <= time].sum())
        rate = plan.low if time // plan.period % 2 == 0 else plan.high
        found.append({"metric": "violations_cumulative", "value": so_far, "time_s": time, "qps": rate})
    return found


def errors(measurement: Measurement) -> Metrics:
    """The predictor's errors by scene: live, and of a fit to every other batch on the rest ("paired")."""
    result = simulate(measurement, engine(measurement), measurement.qps, steps=True)
    if result.steps is None:
        raise RuntimeError("the run kept no steps")
    steps, learning = result.steps, engine(measurement).predictor
    found = _errors(result.quality, "live")
    every_other = np.arange(len(steps)) % 2 == 0
    half = [
        Window(steps.scene[rows], steps.features[rows], steps.seconds[rows], np.ones(int(rows.sum())))
        for rows in (every_other, ~every_other)
    ]
    model = fit(half[0], default_model("cuda"), learning.method, learning.expert_samples)
    if model is not None:
        test = half[1]
        found += _errors(score(predict_all(model, test), test.seconds, test.scene), "paired")
    return found


def _errors(quality: dict[str, Quality], variant: str) -> Metrics:
    found: Metrics = []
    for scene, one in quality.items():
        values = {
            "mae_ms": 1000 * one.mae_s,
            "rmse_ms": 1000 * one.rmse_s,
            "r2": one.r2,
            "mae_percent": 100 * one.mae_share,
            "under_percent": 100 * one.under_share,
        }
        shared = {"variant": variant, "scene": "all" if scene == "overall" else scene, "n": one.samples}
        found += [{"metric": metric, "value": value, **shared} for metric, value in values.items()]
    return found
