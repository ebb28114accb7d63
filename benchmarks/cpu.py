"""Policies side by side on a real model on CPUs, where a prefill costs real time: `make bench-cpu`.

A sanity run of the emulated comparison on hardware that nobody modelled: the demonstration model (26 million
weights) on one core, mixed-v1 with prompts and outputs of half the length, the paper's promises with twice
the time a token. Solo times are measured first, once. Each policy meets the same requests; cells are in a
shuffled order, and those that are recorded already are not run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from slidingserve.bench import demo_model
from slidingserve.bench.client import Target
from slidingserve.workloads import Trace, get
from slidingserve.workloads.slo import PAPER, promises
from slidingserve.workloads.trace import Floats

from benchmarks.emulated.__main__ import compile_policies, rate_of, said_every_half_minute
from benchmarks.emulated.cells import Cell, Setting, Spec, SpecError, shuffled
from benchmarks.emulated.engine import Engine, EngineError, running
from benchmarks.emulated.measure import measure, recorded, write
from benchmarks.emulated.probe import alone
from benchmarks.emulated.table import TABLE_WIDTH, rows, table

POLICIES = "fcfs:512 sarathi_edf:128 qoserve,grid=rescaled ppas slidingserve_paper"
MODEL = "demo"
LONGEST = 4096
SHORTER = 2
"""Lengths of mixed-v1 are divided by this: the model prefills half as fast as two RTX 3090 do an 8B one."""
SLOS = {name: replace(slo, tbt_seconds=2 * slo.tbt_seconds) for name, slo in PAPER.items()}
SOLO_LENGTHS = (16, 128, 512, 1024, 2048, 3072)
SOLO_EACH = 5


@dataclass(frozen=True)
class CpuSetting(Setting):
    """The shortened workload, and promises from measured solo times."""

    solo: list[list[float]]
    """Pairs of prompt tokens and seconds to the first token, ascending."""

    def trace(self, rate: float) -> tuple[Trace, Floats, Floats]:
        """See `Setting.trace`."""
        long = get(self.workload, requests=self.requests, qps=rate, seed=self.seed)
        trace = replace(
            long,
            prompt_tokens=np.maximum(long.prompt_tokens // SHORTER, 1),
            output_tokens=np.maximum(long.output_tokens // SHORTER, 1),
        )
        tokens, seconds = np.array(self.solo).T
        return trace, *promises(trace, np.interp(trace.prompt_tokens, tokens, seconds), SLOS)


def main(
    rates: Annotated[str, typer.Option(help="Requests a second, separated by spaces.")] = "1.5",
    requests: Annotated[int, typer.Option(min=1, help="Requests a cell.")] = 120,
    policies: Annotated[str, typer.Option(help="NAME[:BUDGET][,option=value] ...")] = POLICIES,
    seed: Annotated[int, typer.Option(help="Of the requests, and of the order of the cells.")] = 1,
    out: Annotated[Path, typer.Option(help="Directory of the results.")] = Path("build/bench-cpu"),
) -> None:
    """Measure every policy at every rate, each once; cells that are recorded already are not run again."""
    console = Console(stderr=True)
    model = out / "model"
    demo_model.write(model, "demo")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "0")  # one core computes, the others serve
    try:
        specs = [Spec.parse(text) for text in policies.split()]
        compile_policies(set(specs), console)
        solo = _solo(model, out, console)
        setting = CpuSetting(MODEL, "mixed_v1", requests, seed, solo)
        cells = [Cell(setting, spec, rate_of(rate)) for spec in specs for rate in rates.split()]
        missing = [cell for cell in cells if recorded(out, cell) is None]
        left = sum(requests / cell.rate for cell in missing)
        console.print(f"{len(missing)} of {len(cells)} cells to run, about {left / 60:.0f} minutes")
        for group in shuffled(missing, seed):
            limit = group[0].spec.engine_tokens
            with _engine(model, limit, out) as served:
                for cell in group:
                    record = measure(cell, served, said_every_half_minute(console, cell))
                    write(out / cell.file, record)
                    console.print(f"{cell.spec.label} at {cell.rate:g}: {record['attainment']:.1%} kept")
    except (SpecError, ValueError, EngineError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(2) from None
    found = rows([known for cell in cells if (known := recorded(out, cell)) is not None])
    write(out / "results.json", {"schemaVersion": 1, "solo": solo, "rows": found})
    Console(width=max(Console().width, TABLE_WIDTH)).print(table(found))
    console.print(f"result: {out / 'results.json'}", highlight=False)


def _engine(model: Path, max_tokens: int | None, out: Path) -> contextlib.AbstractContextManager[Engine]:
    arguments = [str(model), "--served-model-name", MODEL, "--dtype", "float32", "--enforce-eager"]
    arguments += ["--max-model-len", str(LONGEST), "--max-num-seqs", "32", "--gpu-memory-utilization", "0.2"]
    arguments += ["--max-num-batched-tokens", str(max_tokens or 2048)]
    return running(arguments, out / f"engine-{max_tokens or 'widest'}")


def _solo(model: Path, out: Path, console: Console) -> list[list[float]]:
    """Prompt tokens and median seconds to the first token of prompts that are alone; measured once."""
    path = out / "solo.json"
    if path.exists():
        known: list[list[float]] = json.loads(path.read_text())
        return known
    console.print("measuring prompts alone", highlight=False)
    found = []
    with _engine(model, None, out) as engine:
        target = Target(engine.url + "/v1", MODEL, cache_salt=secrets.token_hex(8))
        for length in SOLO_LENGTHS:
            results = asyncio.run(alone(target, length, SOLO_EACH))
            found.append([float(length), float(np.median([result.token_times[0] for result in results]))])
    write(path, found)
    return found


if __name__ == "__main__":
    typer.run(main)
