"""The command-line options of every command that takes a workload, and what they mean.

``simulate``, ``goodput`` and ``compare`` take `LoadOptions` and `FileOptions` as they are; ``bench``, which
has a workload more, takes the parts. What cannot be read raises WorkloadError with option, value and remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from slidingserve.workloads.arrivals import ARRIVALS, Arrivals, Switching
from slidingserve.workloads.catalogue import get, is_drawn, names
from slidingserve.workloads.fields import FIELDS, is_class
from slidingserve.workloads.files import load
from slidingserve.workloads.rows import Reading, Report, ZeroOutput
from slidingserve.workloads.slo import PAPER, Slo
from slidingserve.workloads.trace import Trace, WorkloadError

DEFAULT_REQUESTS = 2000
# Panels of the help: short names in each leave room for whole words beside them in 80 columns.
load_option = partial(typer.Option, rich_help_panel="Arrivals and promises")
_file_option = partial(typer.Option, rich_help_panel="Files of yours")

Qps = Annotated[
    float | None,
    typer.Option("--qps", help="Mean requests a second; a trace's own times are stretched to it."),
]
ArrivalsOption = Annotated[
    str | None,
    load_option(
        "--arrivals",
        metavar="KIND",
        help="poisson, trace or switching:LOW/HIGH/PERIOD/TOTAL, two rates (1/s) in turn, PERIOD s each, "
        "TOTAL s in all; default: a trace's own times where it has some, else poisson.",
    ),
]
Seed = Annotated[int, load_option("--seed", help="Seed of arrivals, lengths and classes.")]
SloOption = Annotated[
    list[str] | None,
    load_option(
        "--slo",
        metavar="CLASS=TTFT/TBT",
        help="Promise of a class, as in chat=500ms/40ms, or chat=5x/40ms for a TTFT of 5 times the solo "
        "time; repeatable.",
    ),
]


@dataclass(frozen=True)
class LoadOptions:
    """Which requests, and what they are promised; a rate is each command's own."""

    workload: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE", help="A name from the list below, or a .csv, .jsonl or ShareGPT .json file."
        ),
    ] = "mixed_v1"
    requests: Annotated[
        int | None,
        typer.Option(
            help=f"How many requests; default: {DEFAULT_REQUESTS}, all of a recorded trace or file."
        ),
    ] = None
    arrivals: ArrivalsOption = None
    seed: Seed = 0
    slo: SloOption = None


@dataclass(frozen=True)
class FileOptions:
    """How a file is read."""

    column: Annotated[
        list[str] | None,
        _file_option(
            metavar="FIELD=NAME", help=f"The file's column for one of {', '.join(FIELDS)}; repeatable."
        ),
    ] = None
    time_unit: Annotated[
        str | None, _file_option(metavar="s|ms|us|ns", help="Unit of times that are numbers.")
    ] = None
    zero_output: Annotated[
        str,
        _file_option(
            metavar="one|drop|refuse", help="What to do with rows of 0 output tokens; one takes them as 1."
        ),
    ] = "one"
    missing_output: Annotated[int | None, _file_option(help="Output tokens of rows that do not say.")] = None
    tokens_per_word: Annotated[float, _file_option(help="Tokens of a word, for texts without a count.")] = 1.3

    def reading(self) -> Reading:
        """As one value, checked. Raises WorkloadError."""
        pairs = {}
        for text in self.column or []:
            field, equals, name = text.partition("=")
            if not equals or not name or field not in FIELDS:
                raise WorkloadError(
                    f"--column {text!r}: write FIELD=NAME, with FIELD one of {', '.join(FIELDS)}"
                )
            pairs[field] = name
        for known in get_args(ZeroOutput):
            if self.zero_output == known:
                return Reading(
                    pairs, self.time_unit, known, self.missing_output, tokens_per_word=self.tokens_per_word
                )
        raise WorkloadError(
            f"--zero-output {self.zero_output!r}: is none of {', '.join(get_args(ZeroOutput))}"
        )


def opened(
    workload: str,
    *,
    requests: int | None = None,
    qps: float | None = None,
    arrivals: str | None = None,
    seed: int = 0,
    reading: Reading | None = None,
) -> tuple[Trace, Report | None]:
    """The trace of ``--workload NAME|FILE``, and the report of a file."""
    kind, switch = arrivals_of(arrivals)
    if is_named(workload):
        if requests is None and is_drawn(workload) and kind != "switching":
            requests = DEFAULT_REQUESTS
        trace = get(workload, requests=requests, qps=qps, seed=seed, arrivals=kind, switch=switch)
        return trace, None
    path = Path(workload)
    if not workload or (not path.suffix and len(path.parts) == 1 and not _exists(path)):
        raise WorkloadError(f"--workload {workload!r}: is neither a file nor one of {', '.join(names())}")
    return load(path, reading=reading, requests=requests, qps=qps, seed=seed, arrivals=kind, switch=switch)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than any file's
        return False


def is_named(workload: str) -> bool:
    """Whether it is a name of the catalogue (dashes or underscores)."""
    return workload.replace("-", "_") in names()


def arrivals_of(text: str | None) -> tuple[Arrivals | None, Switching | None]:
    """``poisson``, ``trace``, ``switching`` or ``switching:LOW/HIGH[/PERIOD[/TOTAL]]``."""
    kind, colon, plan = (text or "").partition(":")
    for known in get_args(Arrivals):
        if kind == known and not colon:
            return known, None
        if kind == known == "switching":
            try:
                return known, Switching(*(float(part) for part in plan.split("/")))
            except (TypeError, ValueError) as error:
                reason = f" ({error})" if isinstance(error, WorkloadError) else ""
                raise WorkloadError(
                    f"--arrivals {text!r}: write switching:LOW/HIGH/PERIOD/TOTAL, as in "
                    f"switching:1/2.5/120/1200{reason}"
                ) from error
    if text is None:
        return None, None
    raise WorkloadError(f"--arrivals {text!r}: is none of {', '.join(ARRIVALS)}")


def slos(texts: Sequence[str] | None, base: Mapping[str, Slo] = PAPER) -> dict[str, Slo]:
    """Promises by class: those of ``base``, replaced or joined by those given."""
    return {**base, **dict(slo_of(text) for text in texts or [])}


def slo_of(text: str) -> tuple[str, Slo]:
    """Read ``CLASS=TTFT/TBT``: TTFT ``5x`` (times the solo time), ``500ms`` or ``0.5s``; TBT a time, in ms
    where it has no unit."""
    name, _, limits = text.partition("=")
    ttft, _, tbt = (part.strip().lower() for part in limits.partition("/"))
    try:
        if _is_number(ttft):
            raise WorkloadError(
                f"TTFT {ttft!r} has no unit; write {ttft}x for that many times the solo time, or {ttft}ms or "
                f"{ttft}s for a fixed time"
            )
        tbt_seconds = _seconds(f"{tbt}ms" if _is_number(tbt) else tbt)
        if ttft.endswith("x"):
            return _class(name), Slo(ttft_slowdown=float(ttft[:-1]), tbt_seconds=tbt_seconds)
        return _class(name), Slo(ttft_seconds=_seconds(ttft), tbt_seconds=tbt_seconds)
    except ValueError as error:
        reason = f" ({error})" if isinstance(error, WorkloadError) else ""
        raise WorkloadError(
            f"--slo {text!r}: write CLASS=TTFT/TBT, as in dialogue=5x/40ms or dialogue=500ms/40ms{reason}"
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds(text: str) -> float:
    """A time with its unit. Raises ValueError."""
    if text.endswith("ms"):
        return float(text[:-2]) / 1000
    if text.endswith("s"):
        return float(text[:-1])
    raise ValueError(text)


def _class(name: str) -> str:
    if not is_class(name):
        raise ValueError(name)
    return name
