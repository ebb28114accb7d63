"""First stage of the report: a results file into checked rows.

One row is one number: which figure it belongs to, under which conditions it was measured, metric and value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slidingserve.config_errors import sentences
from slidingserve.report import commands

K = TypeVar("K", bound=Hashable)
Stage = Literal["choose", "report"]
Number = Annotated[float, Field(ge=-1e12, le=1e12)]
"""What axes can be drawn for."""
Name = Annotated[str, Field(max_length=200)]
"""What fits beside a figure."""
_GIVE = "give the results.json of make bench-paper, or what compare or goodput wrote with --output"
_NUMBER_FIRST = re.compile(r"\d+(\.\d+)?( |$)")


class ReportError(Exception):
    """A results file that cannot be drawn; the message is the one line for the user."""


class Row(BaseModel):
    """One measured number. Fields beyond these are kept and ignored."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    figure: Name = Field(description="figure4, figure5, figure6, table4, table5, slo_base, readings, ...")
    model: Name = Field(description="the language model, such as qwen2.5-7b")
    hardware: Name = Field(description="a hardware profile, such as rtx3090-tp2-qwen2.5-7b")
    workload: Name = Field(description="a workload, such as mixed_v1")
    policy: Name = Field(description="a scheduling policy, such as sarathi_edf")
    options: dict[str, Any] = Field(description="the policy's settings that differ from the defaults")
    seed: int = Field(description="seed of the arrivals and lengths")
    fit: int | None = Field(description="training draw of the predictor, or null where there is none")
    criterion: Literal["overall", "per_class"] = Field(description="overall or per_class")
    metric: Name = Field(description="goodput_qps, violations_percent, ttft_p50_s, mae_ms, r2, ...")
    value: Number = Field(description="the number, in the metric's unit")
    stage: Stage = Field("report", description="choose (settings compared on a seed of their own) or report")
    variant: Name = Field("", description="what this experiment varies: an ablation, an SLO base, a reading")
    scene: Name = Field(
        "all", description="decode, prefill, mixed or all: the batches behind a predictor's error"
    )
    qps: Number | None = Field(None, description="requests a second of the run")
    time_s: Number | None = Field(None, description="seconds since the start of the run")
    n: int | None = Field(None, description="requests behind the number")
    ci_low: Number | None = Field(None, description="lower end of the number's own interval")
    ci_high: Number | None = Field(None, description="upper end of the number's own interval")

    @model_validator(mode="after")
    def _base_is_a_number(self) -> Self:
        if self.figure == "slo_base" and not _NUMBER_FIRST.match(self.variant):
            raise ValueError(f"variant: {self.variant!r} of slo_base is no base; give one as in '60 ms'")
        return self

    @property
    def slo_base_ms(self) -> float:
        """The base of the promise that a row of figure slo_base was measured with."""
        return float(self.variant.split()[0])

    @property
    def setting(self) -> str:
        """The options as people write them; empty for the defaults."""
        return ", ".join(f"{name} {_plain(value)}" for name, value in sorted(self.options.items()))


class About(BaseModel):
    """How the rows were made: what captions must say."""

    model_config = ConfigDict(frozen=True, extra="allow")

    requests: int | None = Field(None, description="requests of a run")
    seeds: tuple[int, ...] = Field((), description="seeds of the reported runs")
    choice_seed: int | None = Field(None, description="the seed on which settings were chosen")
    slo_base_ms: float | None = Field(
        None, description="serving overhead in the promise's base, milliseconds"
    )
    hardware: dict[str, str] = Field({}, description="a line about each hardware profile")
    quick: bool = Field(False, description="made by the quick form: shapes only, no numbers to quote")


class Results(BaseModel):
    """A whole results file."""

    model_config = ConfigDict(frozen=True, extra="allow")

    rows: tuple[Row, ...] = Field(description='a list of rows: {"rows": [{"figure": ...}, ...]}')
    about: About = Field(About(), description="how the rows were made")


def load(path: Path) -> Results:
    """Read and check a results file; ReportError says in one line what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ReportError(f"{path}: it is not UTF-8 text; {_GIVE}") from None
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}; {_GIVE}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: it is not JSON ({error}); {_GIVE}") from None
    if commands.is_of_command(document):
        document = {"rows": list(commands.rows_of(document)), "about": {"seeds": document.get("seeds", ())}}
    try:
        results = Results.model_validate(document)
    except ValidationError as error:
        found = sentences(error, Results, "the document").split("; ")
        more = f" ({error.error_count()} problems in all)" if error.error_count() > 1 else ""
        raise ReportError(f"{path}: {'; '.join(found[:2])}{more}; {_GIVE}") from None
    if not results.rows:
        raise ReportError(f"{path}: rows is empty; {_GIVE}")
    return results


def select(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Rows whose fields equal all of `wanted`; `stage` is "report" unless told otherwise."""
    wanted.setdefault("stage", "report")
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


def grouped(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    """Rows by a key, in the order in which the keys appear."""
    groups: dict[K, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return "/".join(str(item) for item in value)
    return "none" if value is None else str(value)
