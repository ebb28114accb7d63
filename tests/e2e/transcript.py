"""A page of commands and what they print: run anew, compared, written anew. Used by test_transcripts.

A block is ```console with lines `$ command`, each followed by its output. What differs from run to run (ages,
times, generated names, figures of the traffic) is compared as a kind, not as a value. A comment
`<!-- until: COMMAND -->` before a block waits for that command to succeed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_UNTIL = re.compile(r"<!-- until: (.*?) -->")
_CHANGING = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b"), "<time>"),
    (re.compile(r"-[0-9a-f]{8,10}-[a-z0-9]{5}\b"), "-<pod>"),
    (re.compile(r"-[0-9a-f]{9,10}\b"), "-<set>"),
    (re.compile(r"\b(\d+\.){3}\d+\b"), "<address>"),
    (re.compile(r"\b(\d+d)?(\d+h)?(\d+m)?\d+[smhd]\b( \(x\d+ over [^)]*\))?"), "<age>"),
    (re.compile(r"\b[gG]eneration(:)? *\d+\b"), "generation <n>"),
    (re.compile(r"\b\d+(\.\d+)? %"), "<share>"),
    (re.compile(r"\bn=\d+\b"), "<n>"),
    (re.compile(r"-{3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
    # Whether the traffic before kept its promises is no matter of the page.
    (re.compile(r"(\d+/\d+) (True|False|Unknown)( <share>)?"), r"\1 <slo>"),
    (re.compile(r"SLOMet=.*"), "SLOMet=<slo>"),
)
Run = Callable[[str], str]


@dataclass(frozen=True)
class Command:
    """One command of a page and the output that the page shows."""

    words: str
    output: str


@dataclass(frozen=True)
class Block:
    """One block: where it lies in the page, what to wait for first, and its commands."""

    begin: int
    end: int
    waits: tuple[str, ...]
    commands: tuple[Command, ...]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    found, last = [], 0
    for match in _BLOCK.finditer(page):
        waits = tuple(_UNTIL.findall(page, last, match.start()))
        found.append(Block(match.start(1), match.end(1), waits, tuple(_commands(match[1]))))
        last = match.end()
    return found


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].endswith("\\\n"):
            count += 1
        yield Command("".join(lines[:count]).rstrip("\n"), "".join(lines[count:]))


def alike(text: str) -> str:
    """A text with all that differs from run to run replaced by what it is."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def rerun(page: str, run: Run, wait: Callable[[str], object]) -> str:
    """The page with every output as it is now; outputs alike stay as they were."""
    new, last = [], 0
    for block in blocks(page):
        for condition in block.waits:
            wait(condition)
        new.append(page[last : block.begin])
        for command in block.commands:
            output = run(command.words)
            kept = command.output if alike(output) == alike(command.output) else output
            new.append(f"$ {command.words}\n{kept}")
        last = block.end
    return "".join([*new, page[last:]])
