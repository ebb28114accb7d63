"""The one way in which code of ours is compiled (numba), so that the planner costs microseconds.

Compiled functions are plain Python over numpy arrays and named tuples of them: with NUMBA_DISABLE_JIT=1 they
run as they are read. No fast-math: results do not depend on the machine. What was compiled stays on disk.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
from numba import njit
from numba.core.caching import IndexDataCacheFile

F = TypeVar("F", bound=Callable[..., object])

_PACKAGE = Path(__file__).resolve().parent.parent
_SHARED = ("core", "policies", "hardware")


def compiled(function: F) -> F:
    """Compile on first use for the types it is called with. Division by zero gives inf, as in numpy."""
    dispatcher = njit(cache=True, error_model="numpy")(function)
    cache = getattr(dispatcher, "_cache", None)
    if cache is not None:
        # numba holds stored code to be fresh as long as this function's own file is. Functions that are
        # called from it are compiled into it, so their files count as well; and two numbas that share a
        # checkout would throw away each other's work. Both stand in the name.
        part = function.__module__.split(".")[1:2]
        name = f"{cache._impl.filename_base}.{numba.__version__}-{_sources(tuple(sorted({*_SHARED, *part})))}"
        cache._cache_file = IndexDataCacheFile(
            cache_path=cache._cache_path,
            filename_base=name,
            source_stamp=cache._impl.locator.get_source_stamp(),
        )
    return dispatcher  # type: ignore[no-any-return]


@functools.cache
def _sources(parts: tuple[str, ...]) -> str:
    """A short digest of all compiled code below those packages of ours."""
    digest = hashlib.sha256()
    for part in parts:
        for path in sorted((_PACKAGE / part).glob("**/*.py")):
            text = path.read_bytes()
            if b"compiled" in text:
                digest.update(path.name.encode() + text)
    return digest.hexdigest()[:12]
