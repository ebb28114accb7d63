"""What holds for every command: help that 80 columns cut nowhere, and one line for what cannot be parsed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc, signature
from typing import Annotated

import pytest
import typer
from slidingserve import cli, hardware, policies, workloads
from slidingserve.bench.command import bench_command
from slidingserve.command_line import complain, flat, run
from slidingserve.report.command import report_command
from slidingserve.sim.commands.compare import compare_command
from slidingserve.sim.commands.goodput import goodput_command
from slidingserve.sim.commands.simulate import simulate_command
from typer.testing import CliRunner

COMMANDS: dict[str, Callable[..., None]] = {
    "serve": cli.serve,
    "drain": cli.drain,
    "simulate": simulate_command,
    "goodput": goodput_command,
    "compare": compare_command,
    "bench": bench_command,
    "report": report_command,
}


def help_of(*command: str) -> str:
    return CliRunner().invoke(cli.app, [*command, "--help"], env={"COLUMNS": "80"}).stdout


def words(text: str) -> set[str]:
    return {word.strip("[],.;") for word in text.replace("│", " ").replace(",", " ").split()}


def test_the_commands_looked_at_below_are_all_there_are() -> None:
    assert {
        found.name or found.callback.__name__ for found in cli.app.registered_commands if found.callback
    } == {*COMMANDS}


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_a_help_of_80_columns_cuts_nothing(command: tuple[str, ...]) -> None:
    text = help_of(*command)
    assert "Usage: slidingserve" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_names_values_and_not_the_types_of_python(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(cli.app, "slidingserve", [*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage: slidingserve" in text
    for kind in ("<bool>", "<int>", "<float>", "<str>", "<path>", "list["):
        assert kind not in text


def test_an_error_is_red_on_a_terminal_unless_colour_is_declined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    complain("slidingserve", "wrong")
    assert "\x1b[31m" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    complain("slidingserve", "wrong")
    assert "\x1b[31m" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_options_their_values_and_defaults_can_be_copied_from_a_help_of_80_columns(command: str) -> None:
    text = help_of(command)
    for parameter in signature(COMMANDS[command], eval_str=True).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            assert (info.metavar or "") in text
            if isinstance(parameter.default, str):
                assert parameter.default in words(text)
            for option in [info.default, *(info.param_decls or ())]:
                assert option is ... or option in words(text)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_whole_lines_of_the_help(command: str) -> None:
    examples = [
        line for line in (getdoc(COMMANDS[command]) or "").splitlines() if line.startswith("slidingserve")
    ]
    assert examples
    assert set(examples) <= {line.strip() for line in help_of(command).splitlines()}


@pytest.mark.parametrize("command", ["simulate", "goodput", "compare"])
def test_every_workload_policy_and_profile_is_in_the_help(command: str) -> None:
    assert {*workloads.names(), *policies.names(), *hardware.names()} <= words(help_of(command))


def test_the_help_of_serve_and_bench_has_their_profiles_or_says_where_they_are() -> None:
    assert {*workloads.names(), *hardware.names()} <= words(help_of("bench"))
    assert "`slidingserve simulate --help`" in " ".join(help_of("serve").replace("│", " ").split())


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ("simulate --qps abc", "simulate: --qps 'abc': must be a valid number. See slidingserve simulate"),
        ("simulate --requests 1.5", "simulate: --requests '1.5': must be a valid integer."),
        ("simulate --qps=", "simulate: --qps '': must be a valid number."),
        ("compare --qps 1 --qps x", "compare: --qps 'x': must be a valid number."),
        ("goodput --seeds many", "goodput: --seeds 'many': must be a valid integer."),
        ("simulate --qps", "simulate: Option '--qps' requires an argument."),
        ("simulate --qsp 1", "simulate: No such option: --qsp (Possible options: --qps"),
        ("simulate --async=1", "simulate: Option '--async' does not take a value."),
        ("simulate more", "simulate: Got unexpected extra argument(s) (more)."),
        ("bench", "bench: Missing option '--url'."),
        ("bench --url http://x --requests 0", "bench: --requests '0': must be greater than or equal to 1."),
        ("bench --url http://x --qps x", "bench: --rate / --qps 'x': must be a valid number."),
        ("report", "report: Missing argument 'RESULTS.json'."),
        ("serve m --emulate-noise 7", "serve: --emulate-noise '7': must be less than or equal to 1."),
        ("serve m --emulate-seed x", "serve: --emulate-seed 'x': must be a valid integer."),
        ("serve --slo-config", ": Option '--slo-config' requires an argument."),
        ("simualte", ": No such command 'simualte'. Did you mean 'simulate'? See slidingserve --help"),
        ("--verbose", ": No such option: --verbose"),
    ],
)  # fmt: skip
def test_what_cannot_be_parsed_is_one_line_and_exit_status_2(
    args: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["slidingserve", *args.split()])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.removeprefix("slidingserve").strip().startswith(line)
    assert err.endswith(" --help\n")
    assert len(err.splitlines()) == 1


def test_without_a_command_the_help_is_all_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["slidingserve"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    out, err = capsys.readouterr()
    assert "Usage: slidingserve" in out
    assert err == ""


@dataclass
class _Group:
    size: Annotated[int, typer.Option(min=1)] = 1
    name: Annotated[str | None, typer.Option("--called")] = None


def test_a_parameter_that_is_a_dataclass_becomes_an_option_a_field() -> None:
    seen: list[object] = []
    app = typer.Typer()

    @app.command()
    @flat
    def command(*, group: _Group, last: bool = False) -> None:
        seen.extend((group, last))

    assert CliRunner().invoke(app, ["--size", "3", "--called", "x", "--last"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert seen == [_Group(3, "x"), True, _Group(), False]
    assert CliRunner().invoke(app, ["--size", "0"]).exit_code == 2
