"""Rows of a user's file as requests, with a report of what was found and what was left out.

``records`` reads the rows, ``fields`` the values; here the rules for what is missing or odd are applied.
``files`` makes a `Trace` of the rows, and the bench reads its files through `read` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from slidingserve.workloads import fields
from slidingserve.workloads.fields import UNITS, Negative, Unusable
from slidingserve.workloads.records import FORMS, Bad, Raw, again, records
from slidingserve.workloads.trace import (
    LONG_PROMPT,
    WorkloadError,
)

ZeroOutput = Literal["one", "drop", "refuse"]
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read; every rule for odd input is here.

    Rows without a length, with text for a number, or cut short are left out and reported by line; with
    ``strict`` the first one refuses the file. Negative values always do. Unsorted rows are sorted.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    """Field -> column name, where the usual names do not fit."""
    time_unit: str | None = None
    """Unit of times that are numbers: s, ms, us, ns; None: by the column's name, else seconds."""
    zero_output: ZeroOutput = "one"
    """A request with 0 output tokens: taken as 1 (a prefill yields a token), left out, or refused."""
    missing_output: int | None = None
    """Output tokens of rows that do not say."""
    default_class: str | None = None
    """Class of rows that name none; None: by prompt length."""
    tokens_per_word: float = 1.3
    """Tokens of texts without a count of theirs."""
    tokenizer: Callable[[str], int] | None = None
    """Counts tokens of texts instead of ``tokens_per_word``."""
    prefix_block: int = 512
    strict: bool = False

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in UNITS:
            raise WorkloadError(f"time unit {self.time_unit!r}: is none of {', '.join(UNITS)}")
        if not 0 < self.tokens_per_word < 1000:
            raise WorkloadError(f"tokens per word {self.tokens_per_word!r}: must be above 0")
        if self.default_class is not None and not fields.is_class(self.default_class):
            raise WorkloadError(f"default class {self.default_class!r}: {fields.CLASS_FORM}")
        for name in ("missing_output", "prefix_block"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= fields.MOST_TOKENS:
                raise WorkloadError(f"{name} {value!r}: must be 1 or more")


@dataclass(slots=True)
class Row:
    """One usable request; ``arrival`` in s from the first, None where the file has no times."""

    place: str
    prompt_tokens: int
    output_tokens: int
    slo_class: str | None
    arrival: float | None = None
    prompt: str | None = None
    ids: list[int] = field(default_factory=list)
    time: int | float = 0
    """As it stands in the file; ns for a date."""
    notes: set[str] = field(default_factory=set)
    """The counts of the report that it adds to."""


@dataclass(slots=True)
class Report:
    """What reading found. ``bad`` holds every row that was left out, ``usable`` the others in order."""

    path: str
    columns: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    kept: int = 0
    bad: list[Bad] = field(default_factory=list)
    zero_output: int = 0
    unsorted: int = 0
    estimated: int = 0
    without_class: int = 0
    missing_output: int = 0
    usable: list[Row] = field(default_factory=list, repr=False)

    def lines(self) -> list[str]:
        """Sentences for people: only what they should know."""
        notes = [f"{self.path}: {self.kept} of {self.rows} rows used"]
        for number, sentence in (
            (self.zero_output, "with 0 output tokens, taken as 1"),
            (self.missing_output, "without output tokens, given the default"),
            (self.unsorted, "before an earlier time: sorted"),
            (self.estimated, "with a token count estimated from the words"),
            (self.without_class, f"without a class: by prompt, summarization from {LONG_PROMPT} tokens"),
        ):
            if number:
                notes.append(f"{self.path}: {number} rows {sentence}")
        if self.bad:
            notes.append(f"{self.path}: {len(self.bad)} rows left out")
            notes += [f"{self.path}, {row}" for row in self.bad[:_SHOWN]]
            if len(self.bad) > _SHOWN:
                notes.append(f"{self.path}: and {len(self.bad) - _SHOWN} more")
        return notes


def read(path: Path | str, reading: Reading | None = None) -> Report:
    """The file's requests in the order of their arrival: ``usable`` of the report.

    Raises WorkloadError, and nothing else.
    """
    path, reading = Path(path), reading or Reading()
    found = records(path)
    report = Report(str(path), rows=len(found))
    keys = [key for row in found if isinstance(row, Raw) for key in row.values]
    raws = [row for row in found if isinstance(row, Raw)]
    report.bad = [row for row in found if isinstance(row, Bad)]
    _refuse_bad(report, reading, whole=not raws)
    report.columns = fields.match(keys, reading.columns, str(path))
    for column in report.columns.values():
        if again(column) in keys:
            raise WorkloadError(f"{path}: has the column {column!r} twice; rename one or take it out")
    fields.require(_with_default(report.columns, reading), keys, str(path))
    rules = _Rows(report, reading)
    rows = rules.usable(raws)
    _refuse_bad(report, reading, whole=not rows)
    report.kept, report.usable = len(rows), rows
    if "arrival" in report.columns:
        by_name = fields.unit_of(report.columns["arrival"], mooncake="prefix_ids" in report.columns)
        _sort(report, "ns" if rules.dates else reading.time_unit or by_name)
    return report


def _with_default(columns: dict[str, str], reading: Reading) -> dict[str, str]:
    return columns if reading.missing_output is None else {"output_tokens": "", **columns}


def _refuse_bad(report: Report, reading: Reading, whole: bool) -> None:
    """Raise for the first bad row if the file is to be perfect, or if no row is left."""
    if report.bad and (reading.strict or whole):
        raise WorkloadError(f"{report.path}, {report.bad[0]}")
    if whole:
        raise WorkloadError(f"{report.path}: holds no requests; write {FORMS}")


class _Rows:
    """Applies the rules to raw rows, counting in the report."""

    def __init__(self, report: Report, reading: Reading) -> None:
        self.report = report
        self.reading = reading
        self.dates: bool | None = None
        """Whether times are dates; the first usable row says."""

    def usable(self, raws: list[Raw]) -> list[Row]:
        rows = []
        for raw in raws:
            try:
                row = self.row(raw)
            except Unusable as error:
                self.report.bad.append(Bad(raw.place, str(error)))
            except Negative as error:
                raise WorkloadError(f"{self.report.path}, {raw.place}: {error}") from error
            else:
                rows.append(row)
                for note in row.notes:
                    setattr(self.report, note, getattr(self.report, note) + 1)
        return rows

    def row(self, raw: Raw) -> Row:
        notes: set[str] = set()
        values = {name: raw.values.get(column) for name, column in self.report.columns.items()}
        values = {name: value for name, value in values.items() if not fields.is_missing(value)}
        prompt = fields.text("prompt", values["prompt"]) if "prompt" in values else None
        prompt_tokens = self.length("prompt_tokens", "prompt", values, notes)
        output_tokens = self.length("output_tokens", "response", values, notes)
        if prompt_tokens == 0:
            raise Unusable("prompt_tokens: 0; a prompt has 1 or more")
        if output_tokens == 0:
            output_tokens = self.zero(notes)
        name = fields.slo_class(values["slo_class"]) if "slo_class" in values else self.reading.default_class
        if name is None:
            notes.add("without_class")
        ids = fields.block_ids(values["prefix_ids"]) if "prefix_ids" in values else []
        if len(ids) > -(-prompt_tokens // self.reading.prefix_block):
            raise Unusable(f"prefix_ids: {len(ids)} blocks are more than the prompt has")
        time = self.time(values) if "arrival" in self.report.columns else 0
        return Row(raw.place, prompt_tokens, output_tokens, name, None, prompt, ids, time, notes)

    def time(self, values: Mapping[str, object]) -> int | float:
        if "arrival" not in values:
            raise Unusable("arrival: missing")
        is_date, number = fields.moment(values["arrival"])
        if self.dates is None:
            self.dates = is_date
        if is_date != self.dates:
            kind = "dates" if self.dates else "numbers"
            raise Unusable(f"arrival: {fields.short(values['arrival'])} stands among {kind}")
        return number

    def length(self, tokens: str, text: str, values: Mapping[str, object], notes: set[str]) -> int:
        """The count that the row gives, else that of its text, else the default."""
        if tokens in values:
            return fields.count(tokens, values[tokens])
        if text in values:
            words = fields.text(text, values[text])
            if self.reading.tokenizer is not None:
                return self.reading.tokenizer(words)
            notes.add("estimated")
            return fields.estimated_tokens(words, self.reading.tokens_per_word)
        if tokens == "output_tokens" and self.reading.missing_output is not None:
            notes.add("missing_output")
            return self.reading.missing_output
        raise Unusable(f"{tokens}: missing; give {text} (text) or {tokens}")

    def zero(self, notes: set[str]) -> int:
        if self.reading.zero_output == "drop":
            raise Unusable("output_tokens: 0")
        if self.reading.zero_output == "refuse":
            raise Negative("output_tokens: 0; a request asks for 1 or more: take zero as one, or drop it")
        notes.add("zero_output")
        return 1


def _sort(report: Report, unit: str) -> None:
    """Put the rows in the order of their times (those of one time as they stood), in s from the first."""
    rows = report.usable
    report.unsorted = sum(after.time < before.time for before, after in pairwise(rows))
    rows.sort(key=lambda row: row.time)
    for row in rows:
        row.arrival = (row.time - rows[0].time) * UNITS[unit]
