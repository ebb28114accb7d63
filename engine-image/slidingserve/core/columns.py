"""What compiled policies read and answer: a snapshot as columns, the settings as numbers, a decision by row.

`Snapshot` (checked, with ids, for people and JSON) turns into `Columns`; the simulator makes `Columns`
straight from its own arrays. A policy is a compiled function `plan(columns, weights, settings) -> Decision`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.int8]
Bools = NDArray[np.bool_]

Weights = Floats
"""The predictor in force, shape (3, 8): by scene (decode, prefill, mixed) an intercept and seven slopes."""


class Columns(NamedTuple):
    """The state of an engine at one moment, in seconds and tokens.

    Arrays of n requests in the engine's own order: first the running ones as they were admitted, then the
    waiting ones as they queue.
    """

    now: float
    phase: Bytes
    """`Phase`: 0 waiting (holds no KV), 1 prefill, 2 decode."""
    arrival: Floats
    remaining: Ints
    """r of equation 7, at least 1; 1 for a decode."""
    cached: Ints
    """Tokens in the KV cache: u of Table 1. For a waiting request 0, or the prefix hit if it is known."""
    slack: Floats
    """s of equation 8: seconds until the next token is due, for a decode too."""
    tbt_limit: Floats
    """L_tbt."""
    ttft_limit: Floats
    """L_ttft."""
    safeguard: Bools
    """g of equation 12."""
    relegated: Bools
    """What an earlier decision relegated; sticky, kept by the caller."""
    max_tokens: int
    """B: the most tokens a batch holds."""
    max_admissions: int
    """How many waiting requests may start in this step."""
    free_kv_tokens: int
    """Room in the KV cache."""
    throughput: float
    """Rho of equation 9, tokens a second; 0 before anything was measured."""


class Decision(NamedTuple):
    """One batch, by row of the columns."""

    tokens: Ints
    """Shape n: tokens that each request computes; 0: it is not in this batch. A decode has 0 or 1."""
    order: Ints
    """Rows of all prefilling and waiting requests in the order in which they were offered the budget."""
    relegated: Bools
    """Shape n: requests relegated from now on (those that were, and new ones)."""
    budget: int
    """Tokens of the batch by the policy's reckoning, decodes included: at least the sum of `tokens`."""
    seconds: float
    """What the batch should take by the predictor, without margin, whether or not the policy asked it."""
    branch: int
    """Index into `BRANCHES`."""
    reason: int
    """Index into `REASONS`, for people who ask."""


BRANCHES = ("chunker", "constructor", "fixed", "stock")
CHUNKER, CONSTRUCTOR, FIXED, STOCK = range(4)

REASONS = (
    "",
    "decodes only: nothing to prefill, or no room for it",
    "no decode to protect: as much as the batch holds",
    "all of it fits",
    "all that the tightest decode allows",
    "the cheapest split over this step and the next",
    "smallest chunk: the margin does not fit",
    "decodes only: the smallest chunk would lose a decode",
    "decodes only: no request at risk can be saved",
    "whole prefills, chosen to save requests at risk",
    "a fixed budget, in order",
    "the largest chunk of the grid that the tightest decode allows",
    "the engine is under pressure: prefills are capped",
)
(
    UNSAID,
    NO_PREFILL,
    OPEN_WINDOW,
    ALL_FITS,
    WINDOW_FULL,
    SPLIT,
    MARGIN_SPENT,
    HELD,
    NONE_SAVED,
    SAVED,
    FIXED_BUDGET,
    GRID,
    PRESSURE,
) = range(13)
