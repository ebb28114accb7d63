"""The settings of a round: in words for people (`PolicySettings`), as numbers for compiled code (`Settings`).

Every option of every policy is here, with a default that suits all of them; docs/method.md has the reasons.
A choice between the paper as printed and our reading is a Literal, whose first value is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

DEFAULT_ALPHA = 0.8
NO_LIMIT = 1 << 30


class Settings(NamedTuple):
    """`PolicySettings` for compiled code: no strings and no None. The fields mean what they mean there."""

    alpha: float
    epsilon: float
    margin: float
    min_chunk: int
    max_chunk: int
    """`NO_LIMIT` for none."""
    budget: int
    """0 for none."""
    late_last: bool
    hold: bool
    relegate: bool
    mlps: bool
    sliding: bool
    clamped: bool
    advanced: bool
    floored: bool
    late_unprotected: bool
    idle_open: bool
    constructor: bool
    anchor_in_window: bool
    fall_through: bool
    verified: bool
    fill_rest: bool
    quantum: int
    grid_artifact: bool
    grid_smallest: int
    pred_threshold: float
    hybrid: float
    relegation: bool
    pressure_cap: int
    large_prefill: int


@dataclass(frozen=True)
class PolicySettings:
    """The settings of a round, swapped as a whole by the live configuration; more in docs/method.md."""

    alpha: float = DEFAULT_ALPHA
    """α of equation 11: a request whose urgency is above it is urgent. QoServe: scales `hybrid`."""
    min_chunk: int = 16
    """A step prefills at least so many tokens (or what is left), or none."""
    max_chunk: int | None = None
    """A step prefills at most so many tokens; None: whatever the batch holds."""
    budget: int | None = None
    """Total tokens of a step, decodes included: what sarathi_edf fills (None: 256), a cap for all others.
    It bounds prefills: decodes run even if there are more (fcfs: not even those, as in vLLM)."""
    margin: float = 1.15
    """Factor on a predicted time before it is held against a slack; 1.0 is the paper as printed."""
    epsilon: float = 0.001
    """ε of equation 10, seconds."""

    # The Multi-Level Priority Sorter.
    sorter: Literal["mlps", "edf"] = "mlps"
    """Order of the prefills: equation 13, or by first-token deadline (Table 4 without MLPS)."""
    late: Literal["last", "paper_equation"] = "last"
    """Requests past their deadline: behind all others (section 5.2), or most urgent (equation 10)."""

    overload: Literal["serve", "relegate"] = "serve"
    """Waiting requests that can no longer keep their promise: tried all the same, as the paper does, or put
    behind all others at once and for good, before any prefill is spent on them."""

    # The SlidingChunker.
    window: Literal["sliding", "single"] = "sliding"
    """Look at this step and the next (Algorithm 1), or fill this step's window alone."""
    tight: Literal["hold", "min_chunk"] = "hold"
    """When even `min_chunk` would lose a decode: prefill nothing this step, or `min_chunk` all the same."""
    search: Literal["clamped", "paper"] = "clamped"
    """b in [max(|D|, B_sum - B), B_cur], or in [|D|, B] as line 4 has it."""
    second_window: Literal["advanced", "paper"] = "advanced"
    """Pred(B_sum - b) on the queue as b leaves it, or on the queue as it is."""
    floor: Literal["decodes", "paper"] = "decodes"
    """A second batch below |D| tokens: still all decodes, or only so many of them."""
    safe_decodes: Literal["not_late", "all"] = "not_late"
    """D_safe of equations 14 and 15: decodes whose deadline has not passed, or all. QoServe's slack too."""
    idle_window: Literal["open", "least_tbt"] = "open"
    """T_cur and T_next without a decode in D_safe: no bound, or the least L_tbt of the queue."""

    # The BatchConstructor.
    constructor: bool = True
    """Whether Algorithm 2 is in the loop (Table 4: with BC)."""
    anchor: Literal["min_window", "paper"] = "min_window"
    """T_a = min(s_a, T_cur), or s_a alone."""
    all_anchors_fail: Literal["chunker", "nothing"] = "chunker"
    """No anchor can be saved: go on to the chunker, or run the decodes alone."""
    capacity: Literal["verified", "paper"] = "verified"
    """Predict the chosen set itself and drop it if it takes longer than T_a, or trust the capacity."""
    rest: Literal["leave", "fill"] = "leave"
    """Capacity that whole prefills leave: unused (equation 22), or offered to the queue in order."""
    quantum: int = 16
    """Most tokens a cell of the knapsack's table; 1 is exact."""

    # QoServe.
    grid: Literal["artifact", "rescaled"] = "artifact"
    """Candidates of a step's total tokens: the artifact's (128, 256, 512, ...), or from `grid_smallest`."""
    grid_smallest: int = 32
    """The rescaled grid is g, 2g, 4g, 6g, ... up to what the batch holds, with this g."""
    pred_threshold: float = 1.2
    """Factor on a predicted time before it is held against the least slack."""
    hybrid: float = 0.01
    """Seconds of deadline that a remaining token weighs, times alpha: 0.008 at alpha 0.8."""
    relegation: bool = True
    """Whether requests that cannot make their deadline are put behind all others."""

    # P-PAS.
    pressure_cap: int = 512
    """Total tokens of a step under pressure."""
    large_prefill: int = 65_536
    """A lone running prefill with so much left counts as pressure beside two decodes."""

    def compiled(self) -> Settings:
        """The same as numbers."""
        return Settings(
            alpha=float(self.alpha),
            epsilon=float(self.epsilon),
            margin=float(self.margin),
            min_chunk=int(self.min_chunk),
            max_chunk=NO_LIMIT if self.max_chunk is None else int(self.max_chunk),
            budget=self.budget or 0,
            late_last=self.late == "last",
            hold=self.tight == "hold",
            relegate=self.overload == "relegate",
            mlps=self.sorter == "mlps",
            sliding=self.window == "sliding",
            clamped=self.search == "clamped",
            advanced=self.second_window == "advanced",
            floored=self.floor == "decodes",
            late_unprotected=self.safe_decodes == "not_late",
            idle_open=self.idle_window == "open",
            constructor=self.constructor,
            anchor_in_window=self.anchor == "min_window",
            fall_through=self.all_anchors_fail == "chunker",
            verified=self.capacity == "verified",
            fill_rest=self.rest == "fill",
            quantum=int(self.quantum),
            grid_artifact=self.grid == "artifact",
            grid_smallest=int(self.grid_smallest),
            pred_threshold=float(self.pred_threshold),
            hybrid=float(self.hybrid),
            relegation=self.relegation,
            pressure_cap=int(self.pressure_cap),
            large_prefill=int(self.large_prefill),
        )
