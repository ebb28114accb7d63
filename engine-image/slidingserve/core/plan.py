"""The output of a round: how many tokens each request computes in the next batch, and what that should take.

The adapter turns a `Plan` into vLLM's own calls; a request that is not in `tokens` waits this step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slidingserve.predictor.features import Features


@dataclass(frozen=True)
class Plan:
    """One batch. `tokens` never sums to more than `budget`, and a decode in it has exactly one token."""

    branch: str
    """Which part decided: one of `columns.BRANCHES`."""
    budget: int
    """Tokens of the batch, decodes included."""
    tokens: dict[str, int]
    """Request id to tokens in this batch; every value is at least 1. Decodes come first."""
    order: list[str]
    """All prefilling and waiting requests, in the order in which they are offered the budget (eq. 13)."""
    predicted_seconds: float
    """What the batch should take, without margin."""
    predicted_features: Features
    """The batch as the predictor sees it (Table 1)."""
    relegated: list[str] = field(default_factory=list)
    """Requests that this plan relegates: from now on they stand behind all others."""
    reason: str = field(default="", compare=False)
    """Why the batch has this size, in a few words, for people who ask."""

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object: branch, budget, predicted_s, order, tokens, relegated, reason."""
        return {
            "branch": self.branch,
            "budget": self.budget,
            "predicted_s": round(self.predicted_seconds, 9),
            "order": list(self.order),
            "tokens": dict(self.tokens),
            "relegated": list(self.relegated),
            "reason": self.reason,
        }
