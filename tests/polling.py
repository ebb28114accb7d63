"""Waiting for what comes by itself; of the standard library alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(look: Callable[[], Found | None], what: str, seconds: float = 30, every: float = 0.1) -> Found:
    """Poll until `look` gives something true; TimeoutError names what did not come."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what} (last seen: {found!r})")
        time.sleep(every)
    return found


def holds(look: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll for a time, and fail as soon as `look` is false."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert look(), f"no longer: {what}"
        time.sleep(0.5)
