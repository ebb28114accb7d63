"""The one way in which code of ours is compiled (numba), so that the planner costs microseconds.

Compiled functions are plain Python over numpy arrays and named tuples of them: with NUMBA_DISABLE_JIT=1 they
run as they are read. No fast-math: results do not depend on the machine. What was compiled stays on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile on first use for the types it is called with. Division by zero gives inf, as in numpy."""
    return njit(cache=True, error_model="numpy")(function)  # type: ignore[no-any-return]
