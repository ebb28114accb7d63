"""The rows of docs/features.md and the tests that they link to. Pure, but for reading the files."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "features.md"
_LINK = re.compile(r"\]\(\.\./(tests/[\w/]+\.py)#(\w+)\)")
_RULE = re.compile(r"\|[-| ]+\|")
REAL = {"cluster", "engine"}
"""Markers of tests that run on real parts."""


@dataclass(frozen=True)
class Shown:
    """A link to one test."""

    path: str
    test: str

    @property
    def node(self) -> str:
        """The test as pytest is told it."""
        return f"{self.path}::{self.test}"


@dataclass(frozen=True)
class Row:
    """One feature or complaint: its first cell, and the tests in its last one."""

    section: str
    name: str
    cells: tuple[str, ...]
    shown: tuple[Shown, ...]


def rows(text: str) -> list[Row]:
    """All rows of all tables of the page, without their headers."""
    found: list[Row] = []
    section, in_table = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            in_table = False
        elif _RULE.fullmatch(line):
            in_table = True
        elif in_table:
            cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
            shown = tuple(Shown(path, test) for path, test in _LINK.findall(cells[-1]))
            found.append(Row(section, cells[0], cells, shown))
    return found


@cache
def named_tests(path: str) -> dict[str, frozenset[str]]:
    """Name of each test of a file -> its pytest markers, the module's among them."""
    file = ROOT / path
    if not file.is_file():
        return {}
    tree = ast.parse(file.read_text())
    whole = {"engine"} if path.startswith("tests/engine/") else set()  # their conftest marks them
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark":
            whole |= _markers(node.value)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            own = {marker for decorator in node.decorator_list for marker in _markers(decorator)}
            found[node.name] = frozenset(whole | own)
    return found


def _markers(node: ast.AST) -> set[str]:
    """The X of every `pytest.mark.X` below a node."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "pytest.mark"
    }
