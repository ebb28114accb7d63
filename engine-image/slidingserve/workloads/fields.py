"""Columns by their names, and raw values as numbers: the second stage of reading a user's file.

Every function that can find a value wrong raises Unusable (this row is reported and left out) or, for what
no file should hold, Negative (the file is refused).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from slidingserve.workloads.trace import WorkloadError

FIELDS = {
    "arrival": ("arrival", "arrivedat", "arrivaltime", "timestamp", "time", "starttime"),
    "prompt_tokens": (
        "prompttokens", "promptlength", "promptlen", "inputtokens", "inputlength", "inputlen", "inputtoks",
        "numprefilltokens", "prefilltokens", "contexttokens", "requesttokens",
    ),
    "output_tokens": (
        "outputtokens", "outputlength", "outputlen", "outputtoks", "numdecodetokens", "decodetokens",
        "generatedtokens", "responsetokens", "completiontokens",
    ),
    "slo_class": ("sloclass", "class"),
    "prompt": ("prompt", "prompttext"),
    "response": ("response", "responsetext", "completion"),
    "prefix_ids": ("hashids", "prefixids"),
}  # fmt: skip
"""What a request is made of, and the column names taken for it (in lower case, letters and digits alone)."""

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
CLASS_FORM = "write 1 to 63 letters, digits, dots, dashes"
MOST_TOKENS = 100_000_000
_MOST_TIME = 1e21
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
# A character of a script without spaces counts as a word.
_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\s\u2e80-\u9fff\uac00-\ud7af]+")


class Unusable(ValueError):  # noqa: N818 - a verdict on a row, not an error of the program
    """Why a row is left out."""


class Negative(ValueError):  # noqa: N818 - the same
    """A value below zero, which says that the file is not what it is taken for."""


def match(keys: Iterable[str], wanted: Mapping[str, str], where: str) -> dict[str, str]:
    """Field -> column, from the names that occur and those that the user gave (field -> column).

    Raises WorkloadError for a field that does not exist or a column that the file has not.
    """
    names = list(dict.fromkeys(keys))
    found: dict[str, str] = {}
    for field, column in wanted.items():
        if field not in FIELDS:
            raise WorkloadError(f"column {field}={column}: {field!r} is none of {', '.join(FIELDS)}")
        same = [name for name in names if name == column] or [
            name for name in names if name.lower() == column.lower()
        ]
        if not same:
            raise WorkloadError(f"{where}: has no column {column!r} for {field}; it has {_listed(names)}")
        found[field] = same[0]
    by_alias: dict[str, str] = {}
    for name in names:
        by_alias.setdefault(_plain(name), name)
    for field, aliases in FIELDS.items():
        units = ("", *UNITS) if field == "arrival" else ("",)
        known = (by_alias.get(alias + unit) for alias in aliases for unit in units)
        column_of = next((name for name in known if name), None)
        if field not in found and column_of:
            found[field] = column_of
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def require(found: Mapping[str, str], names: Iterable[str], where: str) -> None:
    """Raise WorkloadError unless there is a column for each length."""
    for tokens, text, remedy in (
        ("prompt_tokens", "prompt", "give prompt (text) or prompt_tokens"),
        ("output_tokens", "response", "give output_tokens or response (text)"),
    ):
        if tokens not in found and text not in found:
            listed = _listed(list(dict.fromkeys(names))) or "none"
            raise WorkloadError(
                f"{where}: has no column {tokens}: {remedy}, or name one with --column {tokens}=NAME; "
                f"it has {listed}"
            )


def unit_of(column: str, mooncake: bool) -> str:
    """The unit of a column of times: what its name ends in (_ms, _us, _ns), Mooncake's ms, else seconds."""
    ending = re.search(r"[_ ](ms|us|ns)$", column.strip().lower())
    if ending:
        return ending.group(1)
    return "ms" if mooncake else "s"


def is_missing(value: Any) -> bool:
    """An absent key, null or an empty cell."""
    return value is None or (isinstance(value, str) and not value.strip())


def count(field: str, value: Any) -> int:
    """A length in tokens; raises Unusable, or Negative."""
    number = _number(field, value)
    if number < 0:
        raise Negative(f"{field}: {short(number)} is negative; lengths are counts of tokens")
    if number != int(number):
        raise Unusable(f"{field}: {short(value)} is no whole number")
    if number > MOST_TOKENS:
        raise Unusable(f"{field}: {short(number)} is over {MOST_TOKENS:,} tokens")
    return int(number)


def moment(value: Any) -> tuple[bool, int | float]:
    """(True, nanoseconds since 1970) of a date and time, or (False, the number as it stands).

    Dates without an offset are taken as UTC, digits past the ninth of a fraction are cut.
    """
    text = value.strip() if isinstance(value, str) else ""
    if date := _DATE.fullmatch(text):
        day, clock, fraction, offset = date.groups()
        try:
            at = datetime.fromisoformat(f"{day}T{clock}{(offset or 'Z')}")
            seconds = int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        except (ValueError, OverflowError) as error:
            raise Unusable(f"arrival: {short(text)} is no date") from error
        return True, seconds * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))
    number = _number("arrival", value)
    if number < 0:
        raise Negative(f"arrival: {short(number)} is negative; times run from 0 on, or are dates")
    if number > _MOST_TIME:
        raise Unusable(f"arrival: {short(number)} is too large for a time")
    return False, number


def _number(field: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unusable(f"{field}: {type(value).__name__} is no number")
    try:
        number = _parse(value) if isinstance(value, str) else value
    except (ValueError, OverflowError) as error:
        raise Unusable(f"{field}: {short(value)} is no number") from error
    if isinstance(number, float) and not math.isfinite(number):
        raise Unusable(f"{field}: {short(value)} is no number")
    return number


def _parse(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def is_class(name: str) -> bool:
    """Whether the engine's configuration allows the name."""
    return _CLASS.fullmatch(name) is not None


def slo_class(value: Any) -> str:
    """A class name, or Unusable."""
    if isinstance(value, str) and is_class(value.strip()):
        return value.strip()
    raise Unusable(f"slo_class: {short(value)} is no class name: {CLASS_FORM}")


def text(field: str, value: Any) -> str:
    """A text, or Unusable."""
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise Unusable(f"{field}: holds half a character, which nothing can send")
        return value
    raise Unusable(f"{field}: {type(value).__name__} is no text")


def block_ids(value: Any) -> list[int]:
    """The hash ids of a prompt's blocks."""
    if isinstance(value, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and abs(one) < 2**62 for one in value
    ):
        return value
    raise Unusable(f"prefix_ids: {short(value)} is no list of whole numbers")


def estimated_tokens(words: str, tokens_per_word: float) -> int:
    """Tokens of a text by its words; a Han, kana or Hangul character is a word."""
    return math.ceil(len(_WORD.findall(words)) * tokens_per_word)


def short(value: Any) -> str:
    """A value of the user's as it stands, cut to what fits a line."""
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."
