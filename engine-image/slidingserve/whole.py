"""Files that are written whole or not at all, so that nobody takes half of a result for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what `path` is to hold; it is there at the end, and untouched if writing fails.

    A device, a pipe, and a file in a folder that takes no new ones are written in place. Raises OSError.
    """
    path = path.resolve()  # so that a link stays one
    if (path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK):
        yield path
        return
    # Short, because the name of `path` may already be as long as names can be.
    partial = path.with_name(f".partial-{os.getpid()}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def try_to_write(path: Path) -> None:
    """Try, before hours of work, what is to be written after them; leaves no trace. Raises OSError."""
    new = not path.exists()
    with path.open("a"):
        pass
    if new:
        path.unlink()
