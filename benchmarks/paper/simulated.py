"""A measurement as runs of slidingserve.sim, and what their summaries say as rows."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from slidingserve import hardware, sim, workloads
from slidingserve.core.columns import Floats
from slidingserve.hardware import Hardware
from slidingserve.policies import PolicySettings
from slidingserve.sim import metrics
from slidingserve.sim.goodput import Search
from slidingserve.sim.jobs import Job, Summary, missed, tallies
from slidingserve.workloads import Trace, slo
from slidingserve.workloads.arrivals import Switching

from benchmarks.paper.experiments import Where
from benchmarks.paper.measurements import Measurement

Metrics = list[dict[str, Any]]
"""Rows without their label: metric, value, and what belongs to that value alone."""

LATENCIES = ("ttft", "tbt", "tpot", "longest_gap", "e2e")
SHARES = (50, 95, 99)
BIN_SECONDS = 30.0
"""Width of Figure 6's time axis."""
_PREDICTOR = {field.name for field in fields(sim.PredictorConfig)}


class Once:
    """A single run as a plan for the simulator's pool."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.summary: Summary | None = None

    def jobs(self) -> list[Job]:
        """The run, once."""
        return [self.job] if self.summary is None else []

    def take(self, summaries: list[Summary]) -> None:
        """Its summary."""
        (self.summary,) = summaries

    def remaining(self) -> int:
        """Whether it is still to come."""
        return int(self.summary is None)


def machine(where: Where) -> Hardware:
    """The hardware profile under the experiment's conditions."""
    profile = hardware.with_overhead(hardware.get(where.hardware), where.slo_base_ms / 1000)
    if where.noise is not None:
        profile = hardware.with_noise(profile, where.noise)
    if where.host is not None:
        profile = hardware.with_host(profile, where.host)
    return profile if where.link is None else hardware.with_allreduce(profile, *where.link)


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


@lru_cache(maxsize=256)
def _requests(where: Where, requests: int, seed: int, qps: float | None) -> tuple[Trace, Floats, Floats]:
    """Requests at a rate (None: the switching load) and their limits; every policy meets the same."""
    trace = workloads.get(
        where.workload,
        requests=None if qps is None else requests,
        qps=qps,
        seed=seed,
        arrivals="switching" if qps is None else "poisson",
    )
    # Promises are made on the profile itself, whatever an experiment changes about the machine.
    promised = replace(where, noise=None, link=None, host=None, async_scheduling=False)
    return trace, *slo.promises(trace, hardware.solo_seconds(machine(promised), trace.prompt_tokens))


def job(measurement: Measurement, qps: float | None) -> Job:
    """One run; the seed is that of the requests and of the noise."""
    trace, ttft, tbt = _requests(measurement.where, measurement.requests, measurement.seed, qps)
    return Job(engine(measurement), trace, ttft, tbt, measurement.seed)


def plan(measurement: Measurement, start: float | None = None) -> Search | Once:
    """What the pool has to carry out; `start`: about where a search will end, requests a second."""
    if measurement.kind != "goodput":
        return Once(job(measurement, measurement.qps))
    return Search(
        lambda qps: [job(measurement, qps)],
        criterion="per_class" if measurement.criterion == "per_class" else "overall",
        tolerance=measurement.tolerance,
        start=start or 1.0,
    )


def rows(measurement: Measurement, done: Search | Once) -> Metrics:
    """The metrics of a measurement whose plan was carried out."""
    if isinstance(done, Search):
        return [{"metric": "goodput_qps", "value": done.result.qps, "n": measurement.requests}]
    if done.summary is None:
        raise ValueError(f"{measurement} was not carried out")
    if measurement.kind == "errors":
        return errors(done.summary["predictor"], "live")
    found = load(done.summary)
    return found if measurement.qps is not None else [*found, *over_time(done.job.trace, done.summary)]


def load(summary: Summary) -> Metrics:
    """Misses, overall and by class, and latencies."""
    overall = summary["overall"]
    names = ("violations_percent", "violations_percent_low", "violations_percent_high")
    value, low, high = (overall[name] for name in names)
    count = metrics.overall(tallies(summary)).requests
    found: Metrics = [{"metric": names[0], "value": value, "ci_low": low, "ci_high": high, "n": count}]
    for name, tally in tallies(summary).items():
        found.append(
            {"metric": f"violations_percent_{name}", "value": 100 * tally.share, "n": tally.requests}
        )
    percentiles = [f"{name}_p{share}_s" for name in LATENCIES for share in SHARES]
    return found + [{"metric": name, "value": overall[name]} for name in percentiles]


def over_time(trace: Trace, summary: Summary) -> Metrics:
    """Requests that arrived so far and miss, by time of arrival."""
    load, late = Switching(), missed(summary)
    found: Metrics = []
    for time in np.arange(0.0, load.total + 1, BIN_SECONDS).tolist():
        so_far = int(late[trace.arrival <= time].sum())
        rate = load.low if time // load.period % 2 == 0 else load.high
        found.append({"metric": "violations_cumulative", "value": so_far, "time_s": time, "qps": rate})
    return found


def errors(quality: dict[str, dict[str, Any]], variant: str) -> Metrics:
    """The predictor's errors by scene."""
    found: Metrics = []
    for scene, one in quality.items():
        values = {
            "mae_ms": 1000 * one["mae_s"],
            "rmse_ms": 1000 * one["rmse_s"],
            "r2": one["r2"],
            "mae_percent": 100 * one["mae_share"],
            "under_percent": 100 * one["under_share"],
        }
        shared = {"variant": variant, "scene": "all" if scene == "overall" else scene, "n": one["samples"]}
        found += [{"metric": metric, "value": value, **shared} for metric, value in values.items()]
    return found
