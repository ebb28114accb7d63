"""What every policy is: a pure function from a snapshot to a plan, all that adapter and simulator call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Snapshot
from slidingserve.predictor.model import Predictor

DEFAULT_ALPHA = 0.8


@dataclass(frozen=True)
class PolicySettings:
    """The settings of a round, swapped as a whole by the live configuration; more in docs/method.md."""

    alpha: float = DEFAULT_ALPHA
    """α of equation 11: a request whose urgency is above it is urgent."""
    min_chunk: int = 16
    """A step prefills at least so many tokens (or what is left), or none."""
    max_chunk: int | None = None
    """A step prefills at most so many tokens; None: whatever the batch holds."""
    margin: float = 1.15
    """Factor on a predicted time before it is held against a slack; 1.0 is the paper as printed."""
    late: Literal["last", "paper_equation"] = "last"
    """Requests past their deadline: behind all others (section 5.2), or most urgent (equation 10)."""
    tight: Literal["hold", "min_chunk"] = "hold"
    """When even `min_chunk` would lose a decode: prefill nothing this step, or `min_chunk` all the same."""
    epsilon: float = 0.001
    """ε of equation 10, seconds."""


class Policy(Protocol):
    """One scheduling policy. Stateless: the same snapshot, predictor and settings give the same plan."""

    name: str

    def plan(self, snapshot: Snapshot, predictor: Predictor, settings: PolicySettings) -> Plan | None:
        """The next batch, or None to leave the step to the engine's own order."""
        ...
