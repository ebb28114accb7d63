"""The shipped tables, read once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parent / "data"


@cache
def load(name: str) -> dict[str, NDArray[Any]]:
    """All arrays of data/<name>.npz."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@cache
def fits() -> dict[str, dict[str, float]]:
    """Coefficients that build.py fitted, by name."""
    found: dict[str, dict[str, float]] = json.loads((DATA / "fits.json").read_text())
    return found
