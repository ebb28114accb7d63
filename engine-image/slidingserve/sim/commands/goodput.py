"""`slidingserve goodput`: the highest rate that each policy holds."""

from __future__ import annotations

from typing import Annotated, Any

from rich.console import Console

from slidingserve import policies
from slidingserve.command_line import flat
from slidingserve.sim import options as o
from slidingserve.sim import output
from slidingserve.sim.commands.policy import engines_of
from slidingserve.sim.config import SimConfig, SimError
from slidingserve.sim.goodput import CRITERIA, TOLERANCE, Criterion, JobsAt, Search
from slidingserve.sim.jobs import Job
from slidingserve.sim.pool import carry_out
from slidingserve.sim.progress import reported
from slidingserve.workloads.options import FileOptions, LoadOptions

EPILOG = o.NAMES
_DEFAULT = [policies.DEFAULT_POLICY]
_COLUMNS = {
    "policy": "policy",
    "goodput_qps": "goodput 1/s",
    "fails_at_qps": "fails at 1/s",
    "misses": "misses at goodput, %",
}


@flat
def goodput_command(
    *,
    load: LoadOptions,
    policy: o.PoliciesOption = _DEFAULT,
    engine: o.EngineOptions,
    files: FileOptions,
    criterion: Annotated[
        str,
        o.runs_option(
            metavar="overall|per_class", help="Whether 1 % of all requests may miss, or 1 % of every class."
        ),
    ] = "overall",
    seeds: o.SeedsOption = 3,
    tolerance: Annotated[
        float, o.runs_option(help="Relative distance of the two rates at which it ends.")
    ] = TOLERANCE,
    start: Annotated[float, o.runs_option(help="Where to look first, requests a second.")] = 1.0,
    search: o.SearchOptions,
) -> None:
    """Search the highest request rate at which at most 1 % of the requests miss a deadline.

    slidingserve goodput --workload mixed_v1

    slidingserve goodput --policy slidingserve_paper --policy qoserve

    Finished runs are kept: the same command after an interrupt goes on from there.
    """
    with output.said_in_one_line("goodput"):
        store = search.checked()
        engines = engines_of(policy, engine.config())
        source = o.source(load, files)
        source.say_notes(_rate(start))
        draws = o.seeds_of(load.seed, seeds)
        searches = {
            name: Search(
                _jobs(source, config, draws),
                criterion=_criterion(criterion),
                tolerance=tolerance,
                start=_rate(start),
            )
            for name, config in engines.items()
        }
    with output.said_in_one_line("goodput", store):
        with reported("goodput") as report:
            carry_out(list(searches.values()), store, search.workers, report)
        rows: list[dict[str, Any]] = [
            {"policy": name, **found.result.to_json()} for name, found in searches.items()
        ]
        title = f"goodput of {load.workload} on {engine.hardware}, {criterion}"
        shown = [{**row, "misses": _misses(row)} for row in rows]
        output.show(Console(highlight=False), title, shown, _COLUMNS)
        search.write({"workload": load.workload, "hardware": engine.hardware, "seeds": draws}, rows)


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


def _criterion(text: str) -> Criterion:
    for known in CRITERIA:
        if text == known:
            return known
    raise SimError(f"--criterion {text!r}: is none of {', '.join(CRITERIA)}")


def _rate(qps: float) -> float:
    if not 0 < qps < float("inf"):
        raise SimError(f"--start {qps:g}: is no rate; give requests a second above 0")
    return qps
