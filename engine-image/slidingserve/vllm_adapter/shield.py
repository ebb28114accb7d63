"""Two faults of vLLM's CPU build that small chunks and compiled policies would meet, kept away."""

from __future__ import annotations

from typing import Any

_MARK = "slidingserve"


def shield() -> None:
    """Let llvmlite's library have no attributes like `__dict__`. May be called more than once.

    To put its own kernels in place, that build asks every object of every loaded module for its `__dict__`.
    The library object of llvmlite, on which numba stands, takes any name that it is asked for as a C
    function's, so the answer is no dictionary, and the worker does not start.
    """
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


def keep_seeds() -> None:
    """Let a seeded request be prefilled in chunks where there is no GPU. May be called more than once.

    When a chunk ends before its prompt does, vLLM takes the random number that it drew back, by an offset
    that generators on a CPU do not have: the engine ends, under its own scheduler too. Here the state before
    the draw comes back instead.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    sample, keep_books = GPUModelRunner._sample, GPUModelRunner._bookkeeping_sync
    if getattr(keep_books, _MARK, False):
        return

    def remembering(self: Any, *args: Any, **kwargs: Any) -> Any:
        generators = self.input_batch.generators
        self.slidingserve_states = {index: one.get_state() for index, one in generators.items()}
        return sample(self, *args, **kwargs)

    def taking_back(self: Any, *args: Any, **kwargs: Any) -> Any:
        generators, states = self.input_batch.generators, self.slidingserve_states
        self.input_batch.generators = {
            index: _Rewinding(one, states[index]) for index, one in generators.items()
        }
        try:
            return keep_books(self, *args, **kwargs)
        finally:
            self.input_batch.generators = generators

    setattr(taking_back, _MARK, True)
    GPUModelRunner._sample, GPUModelRunner._bookkeeping_sync = remembering, taking_back


class _Rewinding:
    """A generator as vLLM's book-keeping uses it."""

    def __init__(self, generator: Any, before: Any) -> None:
        self._generator, self._before = generator, before

    def get_offset(self) -> int:
        """Nothing to go by."""
        return 0

    def set_offset(self, offset: int) -> None:
        """Back to before the draw."""
        self._generator.set_state(self._before)
