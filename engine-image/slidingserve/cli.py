"""The `slidingserve` command: a thin frame, each command imported only when it runs.

`slidingserve --help` must be quick and work without vLLM, and spawned vLLM children import this module again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slidingserve import __version__, command_line

app = typer.Typer(
    name="slidingserve",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Without GPU, vLLM or cluster: slidingserve simulate --qps 1.5",
)

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
OWN_HELP = {**PASS_ON, "help_option_names": []}
_emulation_option = partial(typer.Option, rich_help_panel="Emulation")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Serve language models under latency promises."""


@app.command(context_settings=PASS_ON)
def serve(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model name or path, as for `vllm serve`.")
    ] = None,
    slo_config: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory with slidingserve.json (classes, policy, alpha); changes are applied live.",
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Small files of the running engine; default: a temporary directory."
        ),
    ] = None,
    profile_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Calibration profiles, reused when an engine's key fits."),
    ] = None,
    calibration_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="Longest calibration before Ready; 0 starts with the safe default model.",
        ),
    ] = None,
    fallback: Annotated[
        bool,
        typer.Option(
            "--fallback", help="Where the gate refuses, serve with vLLM's own scheduler and say so."
        ),
    ] = False,
    log_json: Annotated[
        bool,
        typer.Option("--log-json", help="Log JSON, one object a line; SLIDINGSERVE_LOG=json does the same."),
    ] = False,
    emulate: Annotated[
        str | None,
        _emulation_option(
            metavar="PROFILE",
            help="Serve without a GPU at the speed of this hardware profile, one that "
            "`slidingserve simulate --help` lists; MODEL is then only a name.",
        ),
    ] = None,
    emulate_noise: Annotated[
        float | None,
        _emulation_option(
            min=0.0,
            max=1.0,
            metavar="SIGMA",
            help="Sigma of the random factor on each batch's time; default: the profile's.",
        ),
    ] = None,
    emulate_seed: Annotated[int, _emulation_option(min=0, metavar="N", help="Seed of that factor.")] = 0,
    emulate_log: Annotated[
        Path | None, _emulation_option(metavar="FILE.csv", help="Write a row for each emulated batch here.")
    ] = None,
) -> None:
    """Run vLLM's OpenAI server with the SlidingServe scheduler.

    Other arguments go to `vllm serve` as they are.

    slidingserve serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2

    slidingserve serve --emulate rtx3090-tp2-llama3.1-8b --port 8000
    """
    from slidingserve.server import logs
    from slidingserve.server.emulation import Emulation
    from slidingserve.server.launch import LaunchError, prepare

    if model is not None and model.startswith("-"):
        # Without a model, click takes the first word that it does not know: an option of vLLM's.
        context.args.insert(0, model)
        model = None
    emulation = Emulation(emulate, emulate_noise, emulate_seed, emulate_log) if emulate else None
    try:
        # The first process of a container ignores SIGTERM unless it says otherwise, and vLLM does so late.
        with command_line.interruptible():
            if emulation is None and (emulate_noise, emulate_seed, emulate_log) != (None, 0, None):
                raise LaunchError("--emulate-noise, --emulate-seed, --emulate-log: add --emulate PROFILE")
            launch = prepare(
                model,
                context.args,
                config_dir=slo_config,
                state_dir=state_dir,
                fallback=fallback,
                profile_dir=profile_dir,
                calibration_seconds=calibration_seconds,
                emulate=emulation,
                log_json=log_json or logs.as_json(),
            )
            os.environ.update(launch.env)
            sys.argv = list(launch.argv)
            from slidingserve.vllm_adapter.entry import run

            run(launch.runtime)
    except LaunchError as error:
        if log_json or logs.as_json():
            logs.say(str(error), json_line=True)
        else:
            command_line.complain("slidingserve", error)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as error:
        raise typer.Exit(command_line.status_of(error)) from None


@app.command()
def drain(
    state_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="The engine's --state-dir, on this machine.")
    ],
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Seconds at least, for clients to learn of it.")
    ] = 10.0,
    timeout: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Seconds after them for requests to end.")
    ] = 60.0,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End a drain instead: the engine is ready again.")
    ] = False,
) -> None:
    """Make an engine leave its Service, and return when it can be stopped without losing a request.

    slidingserve drain --state-dir /tmp/slidingserve --wait 10 --timeout 60
    """
    from slidingserve.server import drain as draining

    try:
        if cancel:
            draining.cancel(state_dir)
        else:
            drained = draining.drain(state_dir, wait=wait, timeout=timeout)
            typer.echo(f"slidingserve: {drained}")
            raise typer.Exit(0 if drained.done else 1)
    except draining.DrainError as error:
        command_line.complain("slidingserve drain", error)
        raise typer.Exit(2) from None


@app.command(context_settings=OWN_HELP, add_help_option=False)
def simulate(context: typer.Context) -> None:
    """Run a workload on a simulated engine and say which promises were kept."""
    from slidingserve.sim.commands.simulate import simulate_command

    _run(context, simulate_command)


@app.command(context_settings=OWN_HELP, add_help_option=False)
def goodput(context: typer.Context) -> None:
    """Search the highest rate that a simulated engine holds, by policy."""
    from slidingserve.sim.commands.goodput import goodput_command

    _run(context, goodput_command)


@app.command(context_settings=OWN_HELP, add_help_option=False)
def compare(context: typer.Context) -> None:
    """Compare policies on the same arrivals in the simulator."""
    from slidingserve.sim.commands.compare import compare_command

    _run(context, compare_command)


@app.command(context_settings=OWN_HELP, add_help_option=False)
def bench(context: typer.Context) -> None:
    """Replay a workload against an OpenAI endpoint and score the promises by class."""
    from slidingserve.bench.command import bench_command

    _run(context, bench_command)


@app.command(context_settings=OWN_HELP, add_help_option=False)
def report(context: typer.Context) -> None:
    """Draw results of simulated runs: the paper's figures and tables, as PNGs and one HTML page."""
    from slidingserve.report.command import report_command

    _run(context, report_command)


def _run(context: typer.Context, command: Callable[..., None]) -> None:
    """Hand over to a command that has its own options; the epilog of its help is its module's."""
    single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    epilog = getattr(sys.modules[command.__module__], "EPILOG", None)
    single.command(name=context.info_name, epilog=epilog)(command)
    raise typer.Exit(command_line.run(single, f"slidingserve {context.info_name}", context.args))


def main() -> None:
    """Entry point of the console script."""
    sys.exit(command_line.run(app, "slidingserve"))


if __name__ == "__main__":
    main()
