"""What every policy is: a pure function from a snapshot to a plan, all that adapter and simulator call."""

from __future__ import annotations

from typing import Protocol

from slidingserve.core.plan import Plan
from slidingserve.core.settings import DEFAULT_ALPHA, PolicySettings, Settings
from slidingserve.core.snapshot import Snapshot
from slidingserve.predictor.model import LatencyModel


class Policy(Protocol):
    """One scheduling policy. Stateless: the same snapshot, predictor and settings give the same plan."""

    name: str

    def plan(self, snapshot: Snapshot, model: LatencyModel, settings: PolicySettings) -> Plan | None:
        """The next batch, or None to leave the step to the engine's own order."""
        ...


__all__ = ["DEFAULT_ALPHA", "Policy", "PolicySettings", "Settings"]
