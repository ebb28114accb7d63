"""The command: `python -m benchmarks.emulated`, in an environment with vLLM; `make bench-emulated`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from slidingserve import hardware
from slidingserve.bench.replay import Observer, Progress
from slidingserve.config import loads
from slidingserve.predictor.calibration import default_model
from slidingserve.vllm_adapter.force import force_of
from slidingserve.workloads import WorkloadError

from benchmarks.emulated.cells import Cell, Setting, Spec, SpecError, shuffled
from benchmarks.emulated.engine import EngineError, emulated, running
from benchmarks.emulated.measure import measure, recorded, write
from benchmarks.emulated.probe import front_end
from benchmarks.emulated.table import TABLE_WIDTH, rows, table

POLICIES = "fcfs:256 sarathi_edf:128 qoserve,grid=rescaled ppas slidingserve_paper"
RATES = "1.0 1.6"


def main(
    profile: Annotated[str, typer.Option(help="Hardware profile.")] = "rtx3090-tp2-llama3.1-8b",
    workload: Annotated[str, typer.Option(help="A named workload.")] = "mixed_v1",
    rates: Annotated[str, typer.Option(help="Requests a second, separated by spaces.")] = RATES,
    requests: Annotated[int, typer.Option(min=1, help="Requests a cell.")] = 300,
    policies: Annotated[str, typer.Option(help="NAME[:BUDGET][,option=value] ...")] = POLICIES,
    seed: Annotated[int, typer.Option(help="Of the requests, and of the order of the cells.")] = 1,
    out: Annotated[Path, typer.Option(help="Directory of the results.")] = Path("build/bench-emulated"),
    engine: Annotated[str, typer.Option(help="More arguments of the engine, as one string.")] = "",
) -> None:
    """Measure every policy at every rate, each once; cells that are recorded already are not run again."""
    console = Console(stderr=True)
    try:
        hardware.get(profile)
        setting = Setting(profile, workload, requests, seed)
        cells = [
            Cell(setting, Spec.parse(text), rate_of(rate))
            for text in policies.split()
            for rate in rates.split()
        ]
        setting.trace(cells[0].rate)
        missing = [cell for cell in cells if recorded(out, cell) is None]
        compile_policies({cell.spec for cell in missing}, console)
        left = sum(requests / cell.rate for cell in missing)
        console.print(f"{len(missing)} of {len(cells)} cells to run, about {left / 60:.0f} minutes")
        for group in shuffled(missing, seed):
            limit = group[0].spec.engine_tokens
            place = out / f"engine-{limit or 'profile'}"
            with running([*emulated(profile, limit, place), *engine.split()], place) as served:
                front = front_end(served, profile)
                for cell in group:
                    record = measure(cell, served, said_every_half_minute(console, cell))
                    write(out / cell.file, record | {"front_end_ms": front})
                    share = f"{record['attainment']:.1%} kept"
                    console.print(f"{cell.spec.label} at {cell.rate:g}: {share}", highlight=False)
                    if (stalled := record["device"]["stalled_seconds"]) > 0.001 * record["seconds"]:
                        console.print(
                            f"  this machine held it up for {stalled:.1f} s: run it again when idle"
                        )
    except (SpecError, WorkloadError, ValueError, EngineError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(2) from None
    found = rows([known for cell in cells if (known := recorded(out, cell)) is not None])
    write(out / "results.json", {"schemaVersion": 1, "rows": found})
    Console(width=max(Console().width, TABLE_WIDTH)).print(table(found))
    console.print(f"result: {out / 'results.json'}", highlight=False)


def compile_policies(specs: set[Spec], console: Console) -> None:
    """Compile to numba's cache on disk, which the engines share: a compiler would take their cores."""
    console.print("compiling the policies", highlight=False)
    weights = default_model("cuda").matrix
    for spec in specs:
        force_of(loads(json.dumps(spec.document(1))), weights)


def rate_of(text: str) -> float:
    """A rate as people write it, requests a second. Raises ValueError in words, WorkloadError among them."""
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise WorkloadError(f"--rates {text}: must be above 0 requests a second")
    return rate


def said_every_half_minute(console: Console, cell: Cell) -> Observer:
    """Say each half minute how far a cell is."""
    said = time.monotonic()

    def observe(state: Progress) -> None:
        nonlocal said
        if time.monotonic() - said > 30:
            said = time.monotonic()
            console.print(
                f"  {cell.spec.label} at {cell.rate:g}: {state.done}/{state.total}, {state.running} open, "
                f"{state.elapsed:.0f} of about {state.expected:.0f} s",
                highlight=False,
            )

    return observe


if __name__ == "__main__":
    typer.run(main)
