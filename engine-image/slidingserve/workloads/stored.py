"""The data files of this package: lengths, arrivals and prefix ids of public traces, compressed.

``data/README.md`` says where each comes from; ``build`` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from slidingserve.workloads.trace import Floats, Ints, offsets_of


@dataclass(frozen=True, eq=False)
class Stored:
    """One set of n requests: lengths in tokens, and where it has them arrivals (s) and prefix blocks."""

    prompt_tokens: Ints
    output_tokens: Ints
    arrival: Floats | None = None
    prefix_ids: Ints | None = None
    prefix_offsets: Ints | None = None
    prefix_block: int = 512

    def __len__(self) -> int:
        return int(self.prompt_tokens.size)


@cache
def stored(name: str) -> Stored:
    """Read ``data/NAME.npz``.

    Columns are integers: ``prompt``, ``output``; ``tick`` the gaps between arrivals in units of ``seconds``;
    ``ids`` the differences between successive block ids, ``blocks`` their number by request.
    """
    path = files("slidingserve.workloads") / "data" / f"{name}.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
        lengths = columns["prompt"].astype(np.int64), columns["output"].astype(np.int64)
        arrival: Floats | None = None
        if "tick" in columns:
            ticks = np.cumsum(columns["tick"], dtype=np.int64)
            arrival = ticks.astype(np.float64) * float(columns["seconds"])
        if "ids" not in columns:
            return Stored(*lengths, arrival)
        ids = np.cumsum(columns["ids"], dtype=np.int64)
        return Stored(*lengths, arrival, ids, offsets_of(columns["blocks"]), int(columns["block"]))
