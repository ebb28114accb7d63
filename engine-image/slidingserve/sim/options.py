"""The options that the simulator's commands share, each declared once, in groups; and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from slidingserve import hardware, policies, workloads
from slidingserve.sim import output
from slidingserve.sim.commands.policy import SETTINGS
from slidingserve.sim.config import SimConfig, SimError, check_seed
from slidingserve.sim.jobs import Job
from slidingserve.sim.store import Store, default_directory
from slidingserve.workloads import Trace
from slidingserve.workloads.options import FileOptions, LoadOptions, opened, slos
from slidingserve.workloads.rows import Reading, Report
from slidingserve.workloads.slo import Slo, promises

_engine_option = partial(typer.Option, rich_help_panel="Engine")
runs_option = partial(typer.Option, rich_help_panel="Runs")
results_option = partial(typer.Option, rich_help_panel="Results")
_POLICY = "A name from the list below; settings of it after a colon, as in sarathi_edf:budget=128"
_POLICY_FORM = "NAME[:KEY=VALUE,...]"
PolicyOption = Annotated[str, typer.Option(metavar=_POLICY_FORM, help=f"{_POLICY}.")]
PoliciesOption = Annotated[
    list[str], typer.Option("--policy", metavar=_POLICY_FORM, help=f"{_POLICY}; repeatable.")
]
SeedsOption = Annotated[int, runs_option("--seeds", help="Draws that are pooled, from --seed on.")]
OutputOption = Annotated[
    Path | None, results_option("--output", metavar="FILE.json", help="Write the result as JSON.")
]

NAMES = f"""[bold]Workloads:[/] {", ".join(workloads.names())}.

[bold]Policies:[/] {", ".join(policies.names())}.

[bold]Settings after a policy's colon[/] (docs/method.md): {", ".join(SETTINGS)}.

[bold]Hardware profiles:[/] {", ".join(hardware.names())}."""
"""The end of each help, where long names wrap whole: a column would cut them."""

_MOST_SEEDS = 10_000
_MOST_OVERHEAD = 3.6e6


@dataclass(frozen=True)
class EngineOptions:
    """The engine that is simulated, all but its policy."""

    hardware: Annotated[
        str, typer.Option(metavar="PROFILE", help="A GPU and a model, from the list below.")
    ] = "rtx3090-tp2-llama3.1-8b"
    serving_overhead: Annotated[
        float | None,
        _engine_option(help="Milliseconds of a solo time beside batches; default: the profile's."),
    ] = None
    noise: Annotated[
        float | None, _engine_option(help="Sigma of the lognormal factor on batch times; default: 0.02.")
    ] = None
    max_tokens: Annotated[
        int | None, _engine_option(help="Most tokens of a batch; default: vLLM's on such a GPU.")
    ] = None
    max_requests: Annotated[
        int | None, _engine_option(help="Most requests that run at once; default: vLLM's on such a GPU.")
    ] = None
    kv_tokens: Annotated[
        int | None, _engine_option(help="Size of the KV cache; default: what is left of the memory.")
    ] = None
    no_prefix_caching: Annotated[
        bool, _engine_option("--no-prefix-caching", help="Do not reuse blocks of equal prefixes.")
    ] = False
    asynchronous: Annotated[
        bool, _engine_option("--async", help="Plan a batch while the one before it runs, as vLLM can.")
    ] = False

    def config(self) -> SimConfig:
        """As it is under the default policy. Raises ValueError in one sentence."""
        profile, overhead = hardware.get(self.hardware), self.serving_overhead
        if overhead is not None:
            if not 0 <= overhead <= _MOST_OVERHEAD:
                raise SimError(f"--serving-overhead {overhead:g}: give 0 to {_MOST_OVERHEAD:g} ms")
            profile = hardware.with_overhead(profile, overhead / 1000)
        return SimConfig(
            profile if self.noise is None else hardware.with_noise(profile, self.noise),
            max_tokens=self.max_tokens,
            max_requests=self.max_requests,
            kv_tokens=self.kv_tokens,
            prefix_caching=not self.no_prefix_caching,
            async_scheduling=self.asynchronous,
        )


@dataclass(frozen=True)
class SearchOptions:
    """How a command of many runs makes them, and where its rows go."""

    workers: Annotated[int, runs_option(help="Processes to simulate in.")] = 2
    cache: Annotated[
        Path | None, runs_option(metavar="DIR", help="Where runs are kept; default: your cache directory.")
    ] = None
    output: OutputOption = None
    csv: Annotated[Path | None, results_option(metavar="FILE.csv", help="Write the rows as CSV.")] = None

    def checked(self) -> Store:
        """Refuse before hours of work what would fail in or after them. Raises SimError."""
        output.check_writable(self.output, self.csv)
        if not 1 <= self.workers <= 256:
            raise SimError(f"--workers {self.workers}: give 1 to 256")
        return Store(self.cache or default_directory())

    def write(self, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
        """The rows to the files that were asked for. Raises SimError."""
        if self.output is not None:
            output.write_json(self.output, {**about, "rows": rows})
        if self.csv is not None:
            output.write_csv(self.csv, [{**about, **row} for row in rows])


@dataclass(frozen=True)
class Source:
    """Where requests come from, and what they are promised; made of `source`."""

    load: LoadOptions
    reading: Reading
    slos: dict[str, Slo]

    def trace(self, qps: float | None, seed: int) -> tuple[Trace, Report | None]:
        """The requests at a rate. Raises WorkloadError."""
        load = self.load
        return opened(
            load.workload,
            requests=load.requests,
            qps=qps,
            arrivals=load.arrivals,
            seed=seed,
            reading=self.reading,
        )

    def say_notes(self, qps: float | None) -> None:
        """What reading a file found (rows left out, values made up), a sentence each, on standard error."""
        report = self.trace(qps, self.load.seed)[1]
        for line in report.lines() if report is not None else []:
            typer.echo(line, err=True)

    def job(self, config: SimConfig, qps: float | None, seed: int) -> Job:
        """One run; `seed` is that of the requests and of the noise."""
        trace, _ = self.trace(qps, seed)
        solo = hardware.solo_seconds(config.hardware, trace.prompt_tokens)
        return Job(config, trace, *promises(trace, solo, self.slos), seed)


def source(load: LoadOptions, files: FileOptions) -> Source:
    """The options checked. Raises WorkloadError."""
    return Source(load, files.reading(), slos(load.slo))


def seeds_of(first: int, count: int) -> list[int]:
    """`count` seeds from `first` on. Raises SimError."""
    if not 1 <= count <= _MOST_SEEDS:
        raise SimError(f"--seeds {count}: give 1 or more, up to {_MOST_SEEDS}")
    check_seed("seed", first)
    return list(range(first, first + count))
