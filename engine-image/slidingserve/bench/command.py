"""`slidingserve bench`: the command line over workload, replay, score and report.

Plugged into ``slidingserve.cli`` by a lazy import.  Exit status: 0 when a request succeeded, 1 when none did,
2 for arguments that cannot be used, 130 or 143 after Ctrl-C or SIGTERM (what had ended is written first).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from slidingserve import hardware
from slidingserve.bench import report, score, workload
from slidingserve.bench.client import Result, Target, first_model, http_client
from slidingserve.bench.promises import promised, solo_of
from slidingserve.bench.replay import Progress, Stopped, replay_now
from slidingserve.command_line import complain, flat, status_of
from slidingserve.whole import try_to_write
from slidingserve.workloads import Reading, names, options
from slidingserve.workloads.slo import PAPER, Slo

_replay_option = partial(typer.Option, rich_help_panel="Replay")
EPILOG = f"""[bold]Workloads:[/] {workload.TWO_CLASS}, {", ".join(names())}.

[bold]Hardware profiles:[/] {", ".join(hardware.names())}."""


@flat
def bench_command(
    *,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Base of the OpenAI API, for example http://localhost:8000/v1.")
    ],
    workload_name: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="NAME|FILE",
            help=f"{workload.TWO_CLASS} (a generated mix), a name from the list below, or a .csv, .jsonl or "
            "ShareGPT .json file (arrival, prompt or prompt_tokens, output_tokens, slo_class).",
        ),
    ] = workload.TWO_CLASS,
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How many requests; default: 100 generated, 2000 of a name, all of a trace or file.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            "--qps",
            metavar="1/S",
            help="Mean requests a second (generated: 1); a trace's own times are stretched.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the first that the server lists.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="OPENAI_API_KEY", metavar="KEY", help="Bearer token.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the result as JSON here.")
    ] = None,
    mix: Annotated[
        list[str] | None,
        options.load_option(
            metavar="CLASS",
            help="A class of the generated mix, NAME:SHARE:PROMPT-RANGE:OUTPUT-RANGE; repeatable.",
        ),
    ] = None,
    arrivals: options.ArrivalsOption = None,
    seed: options.Seed = 0,
    slo: options.SloOption = None,
    solo: Annotated[
        str | None,
        options.load_option(
            metavar="PROFILE|FILE",
            help="Solo times that slowdowns (5x) multiply: a hardware profile, or a .csv of prompt_tokens, "
            "seconds. With it dialogue and summarization get the paper's promises unless --slo says other.",
        ),
    ] = None,
    files: options.FileOptions,
    time_scale: Annotated[
        float, _replay_option(min=0, max=1e6, metavar="X", help="Multiplies the arrival times.")
    ] = 1.0,
    concurrency: Annotated[
        int | None,
        _replay_option(min=1, metavar="N", help="Most requests open at once; default: as many as come."),
    ] = None,
    timeout: Annotated[
        float, _replay_option(min=0.1, metavar="S", help="Seconds for a whole request.")
    ] = 120.0,
    warm_cache: Annotated[
        bool,
        _replay_option("--warm-cache", help="Let the prompts meet a prefix cache that earlier runs filled."),
    ] = False,
) -> None:
    """Replay a workload against an OpenAI endpoint and score the latency promises by class.

    slidingserve bench --url http://localhost:8000/v1 --requests 200 --rate 2
    """
    console = Console(stderr=True)
    try:
        reading = files.reading()
        slos = options.slos(slo, PAPER if solo else {})
        items = _items(workload_name, mix or [], requests, rate, arrivals, seed, reading, slos, console)
        items = [changed(item, arrival=item.arrival * time_scale) for item in items]
        items = promised(items, slos, solo_of(solo) if solo else None)
        if not url.startswith(("http://", "https://")):
            raise workload.WorkloadError(f"--url {url!r}: write http://HOST:PORT/v1")
        if output is not None:
            _check_writable(output)
    except workload.WorkloadError as error:
        complain("slidingserve bench", error)
        raise typer.Exit(2) from error
    try:
        name = model or asyncio.run(_ask_model(Target(url, "", api_key=api_key)))
    except ConnectionError as error:
        complain("slidingserve bench", f"no server to replay against: {error}")
        raise typer.Exit(1) from error
    salt = None if warm_cache else secrets.token_hex(8)
    target = Target(url, name, seed, timeout, api_key, salt)
    began = time.monotonic()
    stopped = None
    try:
        results = _replay(items, target, concurrency, console)
    except Stopped as error:
        results, stopped = error.rows, error
    duration = time.monotonic() - began
    scores = score.by_class(results)
    report.show(Console(), results, scores, duration)
    if output is not None:
        config: dict[str, Any] = {
            "url": url,
            "model": name,
            "workload": workload_name,
            "mix": mix,
            "requests": len(items),
            "rate": rate,
            "arrivals": arrivals,
            "time_scale": time_scale,
            "seed": seed,
            "concurrency": concurrency,
            "timeout_s": timeout,
            "warm_cache": warm_cache,
            "slo": {name: str(one) for name, one in slos.items()},
            "solo": solo,
        }
        try:
            report.write(output, report.document(results, scores, config, duration))
        except OSError as error:
            complain("slidingserve bench", _unwritten(output, error))
            raise typer.Exit(1) from None
        console.print(f"result: {output}", markup=False, highlight=False)
    if stopped:
        complain(
            "slidingserve bench",
            f"interrupted; {len(results)} of {len(items)} requests had ended, and are what is shown",
        )
        raise typer.Exit(status_of(stopped))
    if not any(result.ok for result in results):
        complain("slidingserve bench", f"none of {len(results)} requests succeeded")
        raise typer.Exit(1)


def _check_writable(path: Path) -> None:
    """Before the replay, which can take hours. Raises WorkloadError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try_to_write(path)
    except OSError as error:
        raise workload.WorkloadError(_unwritten(path, error)) from None


def _unwritten(path: Path, error: OSError) -> str:
    return f"--output {path}: cannot be written ({error.strerror}); name another file"


def _items(
    name: str,
    mix: list[str],
    requests: int | None,
    rate: float | None,
    arrivals: str | None,
    seed: int,
    reading: Reading,
    slos: Mapping[str, Slo],
    console: Console,
) -> list[workload.Item]:
    """What to send; what a file's reader had to say goes to ``console``."""
    if name == workload.TWO_CLASS:
        mixes = [workload.ClassMix.parse(text) for text in mix] or list(workload.DEFAULT_MIX)
        return workload.generate(mixes, requests or 100, 1.0 if rate is None else rate, seed)
    if not options.is_named(name) and not Path(name).suffix and not Path(name).exists():
        raise workload.WorkloadError(
            f"--workload {name!r}: is neither a file nor one of {', '.join([workload.TWO_CLASS, *names()])}"
        )
    trace, read = options.opened(
        name, requests=requests, qps=rate, arrivals=arrivals, seed=seed, reading=reading
    )
    if read is None:
        return workload.of_trace(trace)
    for line in read.lines():
        console.print(line, markup=False, highlight=False)
    return workload.of_file(trace, read, slos)


async def _ask_model(target: Target) -> str:
    async with http_client(target, 1) as client:
        return await first_model(client)


def _replay(
    items: list[workload.Item], target: Target, concurrency: int | None, console: Console
) -> list[Result]:
    """Replay under a progress bar that knows how long the workload will take."""
    columns = (
        TextColumn("requests"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(items), note="")

        def observe(state: Progress) -> None:
            failed = f", {state.failed} failed" if state.failed else ""
            bar.update(
                task,
                completed=state.done,
                note=f"{state.running} open{failed}, about {state.expected:.0f} s in all",
            )

        return replay_now(items, target, concurrency=concurrency, observer=observe)
