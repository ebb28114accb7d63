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
    """What the batch should take, without margin; 0 where the policy does not predict."""
    branch: int
    """Index into `BRANCHES`."""
    reason: int
    """Index into `REASONS`, for people who ask."""


BRANCHES = ("chunker", "constructor", "fixed", "stock")
