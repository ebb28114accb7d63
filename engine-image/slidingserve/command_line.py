"""What all commands share: groups of options that are declared once, errors in one line, interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer
from rich.console import Console
from typer.main import get_command

# The base of all that the parser refuses. It has no public name: typer brings a click of its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_EXTRAS = {"matplotlib": "pip install 'slidingserve[report]', in a checkout: make venv"}
_ENGINE = "pip install 'slidingserve[gpu]' or 'slidingserve[cpu]', in a checkout: make venv-engine"


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, which has no groups of options: each parameter that is a dataclass becomes an
    option a field."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options = [(field.name, field.default, types[field.name]) for field in fields(groups[name])]
        else:
            options = [(name, parameter.default, hints[name])]
        parameters += [
            Parameter(option, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, default, kind in options
        ]

    @wraps(command)
    def flattened(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    flattened.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    flattened.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flattened


def run(app: typer.Typer, name: str, args: Sequence[str] | None = None) -> int:
    """Run a command line to its exit status. Typer frames what it cannot parse in a box of several
    lines; here that is one line, as all other errors are."""
    command: Any = get_command(app)
    _name_values(command)
    try:
        return command(args=args, prog_name=name, standalone_mode=False) or 0
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == __package__:
            raise  # a fault of ours
        complain(name, missing(error.name))
        return 2
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        place = context.command_path if context else name
        # Without arguments typer prints the help and raises an error without words.
        if said := _sentence(error):
            complain(place, f"{said}{'' if said[-1] in '.?' else '.'} See {place} --help")
        return 2


def _name_values(command: Any) -> None:
    """What each option's value is called in the help, where nothing is said: typer shows Python's types, and
    a `<bool>` behind options that take no value."""
    context = command.context_class(command)
    for option in filter(None, (*command.params, command.get_help_option(context))):
        if option.param_type_name == "argument":
            option.display_type_rich = lambda ctx: None  # its name says what it is
        elif option.is_flag:
            option.metavar = ""
        elif option.metavar is None:
            option.metavar = _VALUES.get(option.bare_type().removeprefix("list[").rstrip("]"))
    for part in getattr(command, "commands", {}).values():
        _name_values(part)


_VALUES = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}


def missing(module: str | None) -> str:
    """That what this command needs is not installed, and how to install it. `module`: what Python did not
    find."""
    what = str(module).partition(".")[0]
    if what in _EXTRAS:
        return f"{what} is not installed in this environment; install it: {_EXTRAS[what]}"
    reason = "" if what == "vllm" else f" (no module named {what})"
    return f"vLLM is not installed in this environment{reason}; install it: {_ENGINE}"


def complain(command: str, text: object) -> None:
    """One line for people on standard error, as long as it is: a fold would break what they copy."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    console.print(f"{command}: {text}", style="red")


def _sentence(error: Any) -> str:
    """Option, value and what it must be, where typer leaves the value out."""
    from pydantic import ValidationError  # not needed to start, which each child process of vLLM does again

    if isinstance(cause := error.__cause__, ValidationError):
        first = cause.errors()[0]
        option = error.param.get_error_hint().replace("'", "")
        wanted = first["msg"].removeprefix("Input should be ").partition(",")[0]
        return f"{option} {first['input']!r}: must be {wanted}"
    return str(error.format_message())


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM as a KeyboardInterrupt, so that workers are ended and people told; not where it is ignored."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def status_of(error: KeyboardInterrupt) -> int:
    """The exit status of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    if not error.args:
        return 128 + signal.SIGINT
    # vLLM raises it with a word, for SIGTERM.
    return 128 + (error.args[0] if isinstance(error.args[0], int) else signal.SIGTERM)
