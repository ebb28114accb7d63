"""`slidingserve compare`: policies side by side on the same arrivals."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from slidingserve import policies
from slidingserve.command_line import flat
from slidingserve.sim import options as o
from slidingserve.sim import output
from slidingserve.sim.commands.policy import engines_of
from slidingserve.sim.compare import Measure
from slidingserve.sim.pool import carry_out
from slidingserve.sim.progress import reported
from slidingserve.workloads.options import FileOptions, LoadOptions

EPILOG = o.NAMES
_ALL = [*policies.names()]
_COLUMNS = {
    "qps": "rate, 1/s",
    "policy": "policy",
    "misses": "misses, %",
    "fewer": "fewer than first, %",
    "ttft_p50_s": "TTFT p50, s",
}


@flat
def compare_command(
    *,
    load: LoadOptions,
    qps: Annotated[
        list[float] | None,
        typer.Option(help="A rate; repeatable. A recorded trace needs none: its own times."),
    ] = None,
    policy: o.PoliciesOption = _ALL,
    engine: o.EngineOptions,
    files: FileOptions,
    seeds: o.SeedsOption = 1,
    search: o.SearchOptions,
) -> None:
    """Compare policies at given rates, on the same arrivals; differences are to the first policy, in pairs.

    slidingserve compare --qps 1.5 --qps 2 --policy fcfs --policy qoserve

    slidingserve compare --workload azure_code_2023 --requests 500
    """
    rates: list[float | None] = [*(qps or [])] or [None]
    with output.said_in_one_line("compare"):
        store = search.checked()
        engines = engines_of(policy, engine.config())
        source = o.source(load, files)
        source.say_notes(rates[0])
        draws = o.seeds_of(load.seed, seeds)
        measures = [
            Measure(name, rate, [source.job(config, rate, seed) for seed in draws])
            for rate in rates
            for name, config in engines.items()
        ]
    with output.said_in_one_line("compare", store):
        with reported("compare") as report:
            carry_out(measures, store, search.workers, report)
        cells = [measure.result for measure in measures]
        first = {cell.qps: cell for cell in reversed(cells)}
        rows: list[dict[str, Any]] = [cell.to_json(first[cell.qps]) for cell in cells]
        title = f"{load.workload} on {engine.hardware}, {len(draws)} draw{'s' if len(draws) > 1 else ''}"
        shown = [
            {
                **row,
                "misses": output.ranged(row, "violations_percent"),
                "fewer": output.ranged(row, "fewer_violations_percent"),
            }
            for row in rows
        ]
        output.show(Console(highlight=False), title, shown, _COLUMNS)
        search.write({"workload": load.workload, "hardware": engine.hardware, "seeds": draws}, rows)
