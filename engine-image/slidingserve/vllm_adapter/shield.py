"""numba beside vLLM's CPU build.

To put its own kernels in place, that build asks every object of every loaded module for its `__dict__`. The
library object of llvmlite, on which numba stands, takes any name that it is asked for as a C function's, so
the answer is no dictionary, and the worker does not start.
"""

from __future__ import annotations

from typing import Any

_MARK = "slidingserve"


def shield() -> None:
    """Let llvmlite's library have no attributes like `__dict__`. May be called more than once."""
    try:
        from llvmlite.binding import ffi

        owner: Any = ffi._lib_wrapper
        look_up = owner.__getattr__
    except (ImportError, AttributeError):
        return  # another llvmlite than the ones we know: nothing to mend, or nothing that we could
    if getattr(look_up, _MARK, False):
        return

    def guarded(self: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return look_up(self, name)

    setattr(guarded, _MARK, True)
    owner.__getattr__ = guarded
