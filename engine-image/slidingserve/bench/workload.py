"""What is sent and when: read from JSONL or CSV, or generated from a seed.

First stage of the bench.  An item carries lengths and a class; its prompt is a text of the user's or random
token ids drawn from the seed, so that two runs of one seed send the same bytes.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

TWO_CLASS = "two-class"

# Token ids that every tokenizer in use has and that are ordinary text in all of them: past the special ids at
# the front, below the 256 of the smallest (byte-level) vocabulary.
_TOKEN_IDS = (16, 250)


class WorkloadError(ValueError):
    """A workload that cannot be replayed; the text says where and what to do."""


@dataclass(frozen=True, slots=True)
class Item:
    """One request to send: ``arrival`` in seconds from the start, lengths in tokens."""

    index: int
    arrival: float
    slo_class: str | None
    prompt_tokens: int
    output_tokens: int
    prompt: str | None = None

    def token_ids(self, seed: int) -> list[int]:
        """Random token ids of this item: the same for the same seed, distinct between items."""
        rng = np.random.default_rng([seed, self.index])
        return [int(token) for token in rng.integers(*_TOKEN_IDS, size=self.prompt_tokens)]


class _Row(BaseModel):
    """One line of a workload file; other columns are left alone."""

    model_config = ConfigDict(extra="ignore")

    arrival: Annotated[
        float, Field(ge=0, validation_alias=AliasChoices("arrival", "arrived_at", "timestamp"))
    ]
    prompt: str | None = None
    prompt_tokens: Annotated[
        int, Field(ge=0, validation_alias=AliasChoices("prompt_tokens", "num_prefill_tokens", "input_length"))
    ] = 0
    output_tokens: Annotated[
        int, Field(gt=0, validation_alias=AliasChoices("output_tokens", "num_decode_tokens", "output_length"))
    ]
    slo_class: str | None = None

    @model_validator(mode="after")
    def _has_prompt(self) -> _Row:
        if self.prompt_tokens < 1 and not self.prompt:
            raise ValueError("give prompt (text) or prompt_tokens (1 or more)")
        return self


def load(path: Path, limit: int | None = None, time_scale: float = 1.0) -> list[Item]:
    """Read a JSONL or CSV file of arrival (s), prompt or prompt_tokens, output_tokens, slo_class.

    The first arrival becomes 0 and every arrival is multiplied by ``time_scale``.  Raises WorkloadError with
    the line and the column at fault.
    """
    rows = [_parse(path, number, raw) for number, raw in _records(path)]
    if not rows:
        raise WorkloadError(
            f"{path}: holds no requests; a line is arrival, prompt_tokens, output_tokens, slo_class"
        )
    rows.sort(key=lambda row: row.arrival)
    start = rows[0].arrival
    return [
        Item(
            index=index,
            arrival=(row.arrival - start) * time_scale,
            slo_class=row.slo_class or None,
            prompt_tokens=row.prompt_tokens,
            output_tokens=row.output_tokens,
            prompt=row.prompt or None,
        )
        for index, row in enumerate(rows[:limit])
    ]


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and raw rows of a file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            if path.suffix == ".csv":
                for row in (reader := csv.DictReader(file)):
                    yield (
                        reader.line_num,
                        {key: value for key, value in row.items() if value not in (None, "")},
                    )
                return
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _json_object(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkloadError(f"{path}: cannot be read: {reason}") from error


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise WorkloadError(
            f"{path}, line {number}: not JSON: {error.msg}; write one object a line"
        ) from error
    if not isinstance(value, dict):
        raise WorkloadError(f"{path}, line {number}: is {type(value).__name__}; write one JSON object a line")
    return value


def _parse(path: Path, number: int, raw: dict[str, Any]) -> _Row:
    try:
        return _Row.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        raise WorkloadError(
            f"{path}, line {number}: {field}: {first['msg']} (is {first['input']!r})"
        ) from error


@dataclass(frozen=True, slots=True)
class ClassMix:
    """A class of a generated mix: its share of the requests and inclusive ranges of lengths in tokens."""

    name: str
    share: float
    prompt: tuple[int, int]
    output: tuple[int, int]

    @staticmethod
    def parse(text: str) -> ClassMix:
        """Read ``NAME:SHARE:PROMPT_LOW-HIGH:OUTPUT_LOW-HIGH``; raises WorkloadError."""
        try:
            name, share, prompt, output = text.split(":")
            mix = ClassMix(name, float(share), _span(prompt), _span(output))
        except ValueError as error:
            raise WorkloadError(
                f"--mix {text!r}: write NAME:SHARE:PROMPT_LOW-HIGH:OUTPUT_LOW-HIGH, "
                "for example dialogue:0.8:32-96:24-48"
            ) from error
        if not name or not 0 < mix.share < float("inf"):
            raise WorkloadError(f"--mix {text!r}: needs a name and a share above 0")
        return mix


def _span(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    span = int(low), int(high or low)
    if not 1 <= span[0] <= span[1]:
        raise ValueError(text)
    return span


DEFAULT_MIX = (
    ClassMix("dialogue", 0.8, (32, 96), (24, 48)),
    ClassMix("summarization", 0.2, (600, 1200), (8, 16)),
)


def generate(mixes: Sequence[ClassMix], requests: int, rate: float, seed: int) -> list[Item]:
    """A Poisson stream of ``requests`` at ``rate`` requests a second, classes dealt by share.

    The number of each class is exact (rounded shares, shuffled), so that a small sample holds every class.
    Same arguments, same items.
    """
    if not mixes or requests < len(mixes):
        raise WorkloadError(
            f"--requests {requests}: needs at least one request for each of {len(mixes)} classes"
        )
    if not 0 < rate < float("inf"):
        raise WorkloadError(f"--rate {rate}: must be above 0 requests a second")
    rng = np.random.default_rng(seed)
    deal = _deal([mix.share for mix in mixes], requests)
    order = rng.permutation(np.repeat(np.arange(len(mixes)), deal))
    arrivals = np.cumsum(rng.exponential(1 / rate, size=requests))
    arrivals -= arrivals[0]
    items = []
    for index, which in enumerate(order):
        mix = mixes[which]
        prompt = int(rng.integers(mix.prompt[0], mix.prompt[1] + 1))
        output = int(rng.integers(mix.output[0], mix.output[1] + 1))
        items.append(Item(index, float(arrivals[index]), mix.name, prompt, output))
    return items


def _deal(shares: Sequence[float], total: int) -> list[int]:
    """Whole counts that sum to ``total``, by largest remainder, at least 1 each."""
    exact = [share / sum(shares) * total for share in shares]
    counts = [max(1, int(value)) for value in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: exact[i] - int(exact[i]), reverse=True)
    for step in range(total - sum(counts)):
        counts[by_remainder[step % len(counts)]] += 1
    while sum(counts) > total:
        counts[counts.index(max(counts))] -= 1
    return counts
