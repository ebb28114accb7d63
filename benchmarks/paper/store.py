"""What was measured before: a file of JSON lines, so that a stopped run goes on where it was.

A line is named by the measurement and by the code that made it: after a change of the simulator or the
policies nothing old is taken for new.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import slidingserve

from benchmarks.paper.jobs import Measurement, as_dict

Metrics = list[dict[str, Any]]
"""Rows without their label: metric, value, and what belongs to that value alone."""

_PARTS = ("core", "policies", "predictor", "hardware", "workloads", "sim")
_SUFFIXES = (".py", ".npz", ".csv", ".json", ".gz")
_NOT_MEASURED = ("command.py", "compare.py", "build.py", "load.py", "readers.py")


class Store:
    """Results on disk and in memory; one process writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Metrics] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8")
            for line in text.splitlines():
                self._read(line)
            if text and not text.endswith("\n"):
                path.write_text(text + "\n", encoding="utf-8")

    def _read(self, line: str) -> None:
        try:
            entry = json.loads(line)
            self._found[entry["key"]] = entry["metrics"]
        except (ValueError, KeyError, TypeError):
            return  # the line that was being written when a run was stopped

    def get(self, measurement: Measurement) -> Metrics | None:
        """What was measured, or None."""
        return self._found.get(key(measurement))

    def put(self, measurement: Measurement, metrics: Metrics, seconds: float) -> None:
        """Keep a result; `seconds` is what it took."""
        name = key(measurement)
        self._found[name] = metrics
        entry = {
            "key": name,
            "seconds": round(seconds, 3),
            "measurement": as_dict(measurement),
            "metrics": metrics,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def key(measurement: Measurement) -> str:
    """The name of a measurement's result."""
    text = json.dumps([as_dict(measurement), code_digest()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """A digest of all code and data that a measurement depends on; comments and docstrings do not count."""
    root = Path(slidingserve.__file__).parent
    digest = hashlib.sha256()
    files = {path for part in _PARTS for path in (root / part).rglob("*") if path.suffix in _SUFFIXES}
    for path in sorted(files | {Path(__file__).with_name("measure.py")}):
        if path.name not in _NOT_MEASURED:
            digest.update(path.name.encode() + content(path))
    return digest.hexdigest()


def content(path: Path) -> bytes:
    """A file as far as it decides results: code without comments and docstrings, data as it is."""
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return ast.dump(tree).encode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
