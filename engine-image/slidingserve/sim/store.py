"""Runs that were made, kept on disk as JSON lines, so that a search that was ended goes on where it was.

One file for each version of the simulating code. A line that a kill has torn, or that is no longer what was
written, is skipped and made again.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from slidingserve.sim.config import SimError
from slidingserve.sim.jobs import Summary, code_version


def default_directory() -> Path:
    """In the user's cache. Raises SimError for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "slidingserve" / "runs"
    except RuntimeError:
        raise SimError("--cache: there is no home directory to keep runs in; name a directory") from None


class Store:
    """A dictionary of runs that outlives the process. Without a directory it does not."""

    def __init__(self, directory: Path | None) -> None:
        """Read what is there. Raises SimError if the directory cannot be used."""
        self.directory = directory
        self._known: dict[str, Summary] = {}
        self._file: Path | None = None
        if directory is None:
            return
        self._file = directory / f"{code_version()}.jsonl"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with self._file.open("a+b") as file:
                file.seek(0)
                for line in file:
                    self._remember(line)
        except OSError as error:
            raise SimError(
                f"--cache {directory}: cannot be written ({error.strerror or error}); name another directory"
            ) from None

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Summary | None:
        """A run made earlier, or None."""
        return self._known.get(key)

    def put(self, key: str, summary: Summary) -> None:
        """Keep a run, at once on disk."""
        self._known[key] = summary
        if self._file is None:
            return
        line = json.dumps({"key": key, "run": summary, "sum": _sum(summary)}, separators=(",", ":"))
        try:
            with self._file.open("ab") as file:
                # In one write, so that two searches on one directory never tear each other's lines.
                torn = file.tell() and not _ends_whole(self._file)
                file.write((b"\n" if torn else b"") + line.encode() + b"\n")
        except OSError as error:
            raise SimError(
                f"--cache {self.directory}: cannot be written ({error.strerror}); name another directory"
            ) from None

    def _remember(self, line: bytes) -> None:
        try:
            document = json.loads(line)
            key, run = str(document["key"]), dict(document["run"])
            # Stores from before there were sums have none.
            if document.get("sum") in (None, _sum(run)):
                self._known[key] = run
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return


def _sum(run: Summary) -> int:
    return zlib.crc32(json.dumps(run).encode())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
