"""A user's file as rows of raw values: CSV, JSON lines, a JSON array, ShareGPT's conversations.

First stage of reading; ``fields`` turns the values into numbers. A byte-order mark and CRLF are read over.
What makes the whole file unusable raises WorkloadError; a row that cannot be read is a `Bad`.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slidingserve.workloads.trace import WorkloadError

FORMS = (
    "a CSV with a header, or one JSON object a line, of arrival, prompt_tokens, output_tokens and, if you "
    "like, slo_class"
)

_DELIMITERS = ",;\t"
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_PARQUET = b"PAR1"
_END = "\0end of the file"
_QUESTION = frozenset({"human", "user"})
_ANSWER = frozenset({"gpt", "assistant", "chatgpt", "model"})


@dataclass(frozen=True, slots=True)
class Raw:
    """Values by column; ``place`` is "line 3", or "entry 3" of a JSON array."""

    place: str
    values: Mapping[str, Any]


class _Twice(dict[str, Any]):
    """An object in which a key stood twice, so that one of its values is gone."""

    key = ""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be used, and why."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def records(path: Path) -> list[Raw | Bad]:
    """Every row of the file. The form is known by the name's ending, else by the first character."""
    text = _text(path)
    ending, start = path.suffix.lower(), text.lstrip()[:1]
    if ending in {".jsonl", ".ndjson"} or (ending != ".csv" and start == "{"):
        rows = list(_json_lines(text))
    elif ending == ".json" or (ending != ".csv" and start == "["):
        rows = list(_json_array(path, text))
    else:
        rows = list(_csv(path, text))
    return [_conversation(row) if isinstance(row, Raw) else row for row in rows]


def _text(path: Path) -> str:
    try:
        # A pipe can be read once, and a workload is read again for each run; a device may have no end.
        endless = path.exists() and not path.is_file() and not path.is_dir()
        content = b"" if endless else path.read_bytes()
    except IsADirectoryError as error:
        raise WorkloadError(f"{path}: is a directory; name a file") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkloadError(f"{path}: cannot be read: {reason}") from error
    if endless:
        raise WorkloadError(f"{path}: is a pipe or a device; write it to a file and name that")
    for start, kind in _PACKED.items():
        if content.startswith(start):
            raise WorkloadError(f"{path}: is packed with {kind}; unpack it first")
    if content.startswith(_PARQUET):
        raise WorkloadError(f"{path}: is a Parquet file; write it as CSV or JSON lines")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise WorkloadError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from error
    if not text.strip():
        raise WorkloadError(f"{path}: is empty and holds no requests; write {FORMS}")
    return text


def _csv(path: Path, text: str) -> Iterator[Raw | Bad]:
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    # The last line shows whether a quotation mark is open there: the reader takes all below it for one cell.
    reader = csv.reader(io.StringIO(f"{text}\n{_END}", newline=""), delimiter=delimiter)
    header: Sequence[str] | None = None
    before = 0
    try:
        for cells in reader:
            place, begin, before = f"line {reader.line_num}", before + 1, reader.line_num
            if cells == [_END]:
                return
            if any(_END in cell for cell in cells):
                raise WorkloadError(
                    f"{path}, line {begin}: a quotation mark is opened and never closed; close it"
                )
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _unlike([cell.strip() for cell in cells])
                continue
            if len(cells) > len(header):
                yield Bad(place, f"has {len(cells)} cells under {len(header)} headings")
            else:
                yield Raw(place, dict(zip(header, cells, strict=False)))
    except csv.Error as error:
        raise WorkloadError(
            f"{path}, line {before + 1}: {error}; close a quotation mark that is open, or write JSON lines"
        ) from error


def _unlike(names: Sequence[str]) -> list[str]:
    """Headings with all after the first of a name numbered, so that no column hides another."""
    seen: Counter[str] = Counter()
    unlike = []
    for name in names:
        seen[name] += 1
        unlike.append(again(name, seen[name]) if seen[name] > 1 else name)
    return unlike


def again(name: str, count: int = 2) -> str:
    """What a heading is called when it stands there again."""
    return f"{name} ({count})"


def _json_lines(text: str) -> Iterator[Raw | Bad]:
    # Not splitlines(): a JSON text may hold U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"line {number}"
            try:
                value = json.loads(line, object_pairs_hook=_object_of)
            except (ValueError, RecursionError) as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
                yield Bad(place, f"not JSON: {reason}; write one object a line")
                continue
            yield _object(place, value)


def _json_array(path: Path, text: str) -> Iterator[Raw | Bad]:
    try:
        values = json.loads(text, object_pairs_hook=_object_of)
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] == "{":
            yield from _json_lines(text)
            return
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
        raise WorkloadError(f"{path}{where}: not JSON: {reason}; write an array of objects") from error
    if isinstance(values, dict):
        values = [values]
    if not isinstance(values, list):
        raise WorkloadError(f"{path}: is {type(values).__name__}; write an array of objects")
    for number, value in enumerate(values, start=1):
        yield _object(f"entry {number}", value)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = _Twice(found)
    names = [name for name, _ in pairs]
    twice.key = next(name for name in names if names.count(name) > 1)
    return twice


def _object(place: str, value: object) -> Raw | Bad:
    if isinstance(value, _Twice):
        return Bad(place, f"has the key {value.key[:40]!r} twice; give it once")
    if isinstance(value, dict):
        return Raw(place, value)
    return Bad(place, f"is {type(value).__name__}; write one JSON object a request")


def _conversation(row: Raw) -> Raw | Bad:
    """ShareGPT's form: what comes up to the first question is the prompt, the next turn is the answer."""
    turns = row.values.get("conversations")
    if turns is None:
        return row
    prompt: list[str] = []
    asked = False
    for turn in turns if isinstance(turns, list) else []:
        if not isinstance(turn, dict):
            break
        role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
        if not isinstance(text, str) or not isinstance(role, str):
            break
        if asked:
            if role.lower() not in _ANSWER:
                break
            others = {key: value for key, value in row.values.items() if key != "conversations"}
            return Raw(row.place, {**others, "prompt": "\n".join(prompt), "response": text})
        prompt.append(text)
        asked = role.lower() in _QUESTION
    return Bad(row.place, "conversations: holds no question of a human with the answer after it")
