"""Simulator against emulated engine, on the same arrivals and promises: `python -m benchmarks.agreement`.

Reads the cells that `benchmarks.emulated` recorded (client's clock, real HTTP, real vLLM) and simulates each
of them: same profile, requests, limits, policy and settings, asynchronous scheduling. What the two can agree
on is bounded by what the simulator leaves out: the front end's time for each token, and the machine's jitter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from slidingserve.policies import PolicySettings
from slidingserve.sim import PredictorConfig, Result, SimConfig, run
from slidingserve.workloads.trace import Floats

from benchmarks.emulated.cells import Cell, Setting, Spec
from benchmarks.emulated.measure import percentiles, write

Numbers = dict[str, float]


@dataclass(frozen=True)
class Compared:
    """One cell by both; times in ms, attainment as a share. The simulator's are means over its seeds."""

    key: dict[str, Any]
    engine: Numbers
    simulator: Numbers
    spread: dict[str, tuple[float, float]]
    """Least and most over the simulator's seeds: what noise and training data alone do."""
    front_end: Numbers
    """TTFT of the engine less what its front end adds to a prompt of that length when idle, measured beside
    the cell; empty where it was not."""
    same_verdicts: float
    """Share of requests that both say were kept, or missed (the simulator's first seed)."""

    @property
    def points(self) -> float:
        """Attainment of the engine less the simulator's, in percentage points."""
        return 100 * (self.engine["attainment"] - self.simulator["attainment"])

    def off(self, name: str) -> float:
        """Engine over simulator, less 1."""
        return self.engine[name] / self.simulator[name] - 1

    def row(self) -> dict[str, Any]:
        """The JSON form."""
        times = [name for name in self.engine if name != "attainment"]
        return {
            **self.key,
            "engine": self.engine,
            "simulator": self.simulator,
            "simulator_spread": self.spread,
            "attainment_points": self.points,
            "relative": {name: self.off(name) for name in times},
            "engine_less_front_end": self.front_end,
            "relative_less_front_end": {
                name: value / self.simulator[name] - 1 for name, value in self.front_end.items()
            },
            "same_verdicts": self.same_verdicts,
        }


def cell_of(key: dict[str, Any]) -> Cell:
    """The cell that a record says it is."""
    setting = Setting(key["profile"], key["workload"], key["requests"], key["seed"])
    return Cell(setting, Spec.parse(key["policy"]), key["rate"])


def simulated(cell: Cell, seed: int) -> Result:
    """The cell in the simulator; `seed` draws batch noise and the predictor's first training data."""
    trace, ttft, tbt = cell.setting.trace(cell.rate)
    config = SimConfig(
        cell.setting.hardware,
        cell.spec.policy,
        PolicySettings(**cell.spec.settings()),
        max_tokens=cell.spec.engine_tokens,
        async_scheduling=True,
        predictor=PredictorConfig(fit_seed=seed),
    )
    return run(trace, ttft, tbt, config, seed)


def numbers(attainment: float, ttft: Any, gaps: Any) -> Numbers:
    """What is compared."""
    times = {"ttft": percentiles(ttft), "tbt": percentiles(gaps)}
    return {
        "attainment": attainment,
        **{f"{name}_{p}": value for name, part in times.items() for p, value in part.items()},
    }


def compare(record: dict[str, Any], seeds: int) -> Compared:
    """One recorded cell against the simulator."""
    cell = cell_of(record["key"])
    results = [simulated(cell, seed) for seed in range(seeds)]
    every = [
        numbers(float(1 - r.missed.mean()), r.ttft, r.gaps(np.ones(len(r.trace), bool))) for r in results
    ]
    times = [np.array(request["token_ms"]) / 1000 for request in record["requests"]]
    kept = np.array([_kept(request, t) for request, t in zip(record["requests"], times, strict=True)])
    return Compared(
        record["key"],
        numbers(
            float(kept.mean()),
            [t[0] for t in times if t.size],
            np.concatenate([np.diff(t) for t in times]),
        ),
        {name: float(np.mean([found[name] for found in every])) for name in every[0]},
        {name: _span([found[name] for found in every]) for name in every[0]},
        _less_front_end(record.get("front_end_ms") or {}, cell, times),
        float((kept == ~results[0].missed).mean()),
    )


def _less_front_end(added_ms: Numbers, cell: Cell, times: list[Floats]) -> Numbers:
    if not added_ms:
        return {}
    known = np.array(sorted((int(length), added / 1000) for length, added in added_ms.items()))
    lengths = cell.setting.trace(cell.rate)[0].prompt_tokens
    added = np.interp(lengths, known[:, 0], known[:, 1])
    ttft = [t[0] - more for t, more in zip(times, added, strict=True) if t.size]
    return {f"ttft_{p}": value for p, value in percentiles(ttft).items()}


def _span(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _kept(request: dict[str, Any], times: Floats) -> bool:
    ttft, tbt = request["promise_ms"]
    due = (ttft + tbt * np.arange(times.size)) / 1000
    return request["error"] is None and bool((times <= due).all())


def table(found: list[Compared]) -> Table:
    """Engine, the range of the simulator over its seeds, how far off its mean is, and (after a semicolon) how
    far without the front end's share."""
    view = Table(title="Emulated engine / simulator", title_justify="left")
    for heading in (
        "req/s",
        "policy",
        "kept",
        "points",
        "TTFT p50 ms",
        "TTFT p99 ms",
        "TBT p50 ms",
        "TBT p99 ms",
    ):
        view.add_column(heading)
    for one in found:
        view.add_row(
            f"{one.key['rate']:g}",
            one.key["policy"],
            f"{one.engine['attainment']:.1%} / {_percent(one)}",
            f"{one.points:+.1f}",
            *(
                f"{one.engine[name]:,.0f} / {_range(one, name)} ({_off(one, name)})"
                for name in ("ttft_p50", "ttft_p99", "tbt_p50", "tbt_p99")
            ),
        )
    return view


def _percent(one: Compared) -> str:
    low, high = one.spread["attainment"]
    return f"{100 * low:.1f}-{100 * high:.1f}%"


def _off(one: Compared, name: str) -> str:
    less = one.front_end.get(name)
    return f"{one.off(name):+.0%}" + ("" if less is None else f"; {less / one.simulator[name] - 1:+.0%}")


def _range(one: Compared, name: str) -> str:
    low, high = one.spread[name]
    return f"{low:,.0f}-{high:,.0f}"


def main(
    results: Annotated[Path, typer.Option(help="Directory of `benchmarks.emulated`.")] = Path(
        "build/bench-emulated"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Simulations a cell.")] = 5,
) -> None:
    """Compare every recorded cell; writes agreement.json beside them."""
    console = Console(stderr=True)
    records = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    records = [record for record in records if "key" in record and "requests" in record]
    if not records:
        console.print(f"{results} holds no cells; run `make bench-emulated` first", style="red")
        raise typer.Exit(2)
    found = [compare(record, seeds) for record in records]
    found.sort(key=lambda one: (one.key["rate"], one.key["policy"]))
    write(results / "agreement.json", {"schemaVersion": 1, "rows": [one.row() for one in found]})
    Console(width=160).print(table(found))


if __name__ == "__main__":
    typer.run(main)
