"""llvmlite's library beside code that asks every object for its attributes."""

from __future__ import annotations

from typing import Any

from slidingserve.vllm_adapter.shield import shield


def test_the_library_has_functions_and_no_other_attributes() -> None:
    from llvmlite.binding import ffi

    shield()
    shield()
    library: Any = ffi.lib
    assert callable(library.LLVMPY_GetVersionInfo)
    assert not hasattr(library, "__dict__")
    assert not hasattr(library, "__wrapped__")
