"""`slidingserve goodput`: the highest rate that each policy holds."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from slidingserve.sim import options as o
from slidingserve.sim import output
from slidingserve.sim.config import SimConfig
from slidingserve.sim.goodput import TOLERANCE, JobsAt, Search
from slidingserve.sim.jobs import Job
from slidingserve.sim.pool import carry_out
from slidingserve.sim.progress import reported
from slidingserve.sim.store import Store, default_directory
from slidingserve.workloads import options as w

_COLUMNS = {
    "policy": "policy",
    "goodput_qps": "goodput 1/s",
    "fails_at_qps": "fails at 1/s",
    "misses": "misses at goodput, %",
}


def goodput_command(
    workload: w.Workload = "mixed_v1",
    policy: o.PoliciesOption = None,
    criterion: Annotated[
        str, typer.Option(help="overall: 1 % of all requests may miss; per_class: 1 % of every class.")
    ] = "overall",
    hardware: o.HardwareOption = o.DEFAULT_HARDWARE,
    requests: w.Requests = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Draws that are pooled, from --seed on.")] = 3,
    seed: w.Seed = 0,
    tolerance: Annotated[
        float, typer.Option(help="Relative distance of the two rates at which it ends.")
    ] = TOLERANCE,
    start: Annotated[float, typer.Option(help="Where to look first, requests a second.")] = 1.0,
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
    """Search the highest request rate at which at most 1 % of the requests miss a deadline.

    slidingserve goodput --workload mixed_v1

    slidingserve goodput --policy slidingserve_paper --policy qoserve --policy sarathi_edf:budget=128

    Finished runs are kept: the same command after an interrupt goes on from there.
    """
    with output.said_in_one_line("goodput"):
        output.check_writable(out, csv)
        o.check_workers(workers)
        limits = max_tokens, max_requests, kv_tokens, prefix_caching, asynchronous
        engines = o.chosen(policy, o.base(hardware, serving_overhead, noise, *limits))
        reading = w.reading_of(column, time_unit, zero_output, missing_output, tokens_per_word)
        source = o.Source(workload, requests, arrivals, reading, w.slos(slo))
        draws = o.seeds_of(seed, seeds)
        searches = {
            name: Search(
                _jobs(source, config, draws),
                criterion=o.criterion(criterion),
                tolerance=tolerance,
                start=o.rate(start),
            )
            for name, config in engines.items()
        }
        store = Store(cache or default_directory())
    with output.said_in_one_line("goodput", store):
        with reported("goodput") as report:
            carry_out(list(searches.values()), store, workers, report)
        rows: list[dict[str, Any]] = [
            {"policy": name, **search.result.to_json()} for name, search in searches.items()
        ]
        about = {"workload": workload, "hardware": hardware, "seeds": draws}
        title = f"goodput of {workload} on {hardware}, {criterion}"
        shown = [{**row, "misses": _misses(row)} for row in rows]
        output.show(Console(highlight=False), title, shown, _COLUMNS)
        if out is not None:
            output.write_json(out, {**about, "rows": rows})
        if csv is not None:
            output.write_csv(csv, [{**about, **row} for row in rows])


def _misses(row: dict[str, Any]) -> str:
    """What the criterion judged at the rate that holds: all requests, or the class that misses most."""
    if row["criterion"] == "overall" or not row["classes"]:
        return output.ranged(row, "violations_percent")
    name = max(row["classes"], key=row["classes"].__getitem__)
    return f"{row['classes'][name]:.2f} of {name}"


def _jobs(source: o.Source, config: SimConfig, seeds: list[int]) -> JobsAt:
    def at(qps: float) -> list[Job]:
        return [source.job(config, qps, seed) for seed in seeds]

    return at
