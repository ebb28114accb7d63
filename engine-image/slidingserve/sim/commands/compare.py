"""`slidingserve compare`: policies side by side on the same arrivals."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from slidingserve import policies
from slidingserve.sim import options as o
from slidingserve.sim import output
from slidingserve.sim.compare import Measure
from slidingserve.sim.config import SimConfig
from slidingserve.sim.jobs import Job
from slidingserve.sim.pool import carry_out
from slidingserve.sim.progress import reported
from slidingserve.sim.store import Store, default_directory
from slidingserve.workloads import options as w

_COLUMNS = {
    "qps": "requests/s",
    "policy": "policy",
    "misses": "misses, %",
    "fewer": "fewer than first, %",
    "ttft_p50_s": "TTFT p50, s",
}


def compare_command(
    workload: w.Workload = "mixed_v1",
    qps: Annotated[
        list[float] | None,
        typer.Option("--qps", help="A rate; repeatable. A recorded trace needs none: its own times."),
    ] = None,
    policy: o.PoliciesOption = None,
    hardware: o.HardwareOption = o.DEFAULT_HARDWARE,
    requests: w.Requests = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Draws that are pooled, from --seed on.")] = 1,
    seed: w.Seed = 0,
    arrivals: w.ArrivalsOption = None,
    slo: w.SloOption = None,
    serving_overhead: o.Overhead = None,
    noise: o.Noise = None,
    max_tokens: o.MaxTokens = None,
    max_requests: o.MaxRequests = None,
    kv_tokens: o.KvTokens = None,
    prefix_caching: o.PrefixCaching = True,
    asynchronous: o.AsyncOption = False,
    column: w.Column = None,
    time_unit: w.TimeUnit = None,
    zero_output: w.ZeroOutputOption = "one",
    missing_output: w.MissingOutput = None,
    tokens_per_word: w.TokensPerWord = 1.3,
    workers: o.Workers = 2,
    cache: o.CacheOption = None,
    out: o.OutputOption = None,
    csv: o.CsvOption = None,
) -> None:
    """Compare policies at given rates, on the same arrivals; differences are to the first policy, in pairs.

    Without --policy it compares all there are.

    slidingserve compare --qps 1.5 --qps 2 --policy fcfs --policy qoserve --policy slidingserve_paper

    slidingserve compare --workload azure_code_2023 --policy fcfs --policy slidingserve_paper
    """
    rates: list[float | None] = [*(qps or [])] or [None]
    with output.said_in_one_line("compare"):
        output.check_writable(out, csv)
        o.check_workers(workers)
        limits = max_tokens, max_requests, kv_tokens, prefix_caching, asynchronous
        engines = o.chosen(policy or policies.names(), o.base(hardware, serving_overhead, noise, *limits))
        reading = w.reading_of(column, time_unit, zero_output, missing_output, tokens_per_word)
        source = o.Source(workload, requests, arrivals, reading, w.slos(slo))
        draws = o.seeds_of(seed, seeds)
        measures = [
            Measure(name, rate, _jobs(source, config, rate, draws))
            for rate in rates
            for name, config in engines.items()
        ]
        store = Store(cache or default_directory())
    with output.said_in_one_line("compare", store):
        with reported("compare") as report:
            carry_out(measures, store, workers, report)
        cells = [measure.result for measure in measures]
        first = {cell.qps: cell for cell in reversed(cells)}
        rows: list[dict[str, Any]] = [cell.to_json(first[cell.qps]) for cell in cells]
        title = f"{workload} on {hardware}, {len(draws)} draw{'s' if len(draws) > 1 else ''}"
        shown = [
            {
                **row,
                "misses": output.ranged(row, "violations_percent"),
                "fewer": output.ranged(row, "fewer_violations_percent"),
            }
            for row in rows
        ]
        output.show(Console(highlight=False), title, shown, _COLUMNS)
        about = {"workload": workload, "hardware": hardware, "seeds": draws}
        if out is not None:
            output.write_json(out, {**about, "rows": rows})
        if csv is not None:
            output.write_csv(csv, [{**about, **row} for row in rows])


def _jobs(source: o.Source, config: SimConfig, qps: float | None, seeds: list[int]) -> list[Job]:
    return [source.job(config, qps, seed) for seed in seeds]
