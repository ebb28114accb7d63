"""First come, first served: the stock order. It plans nothing; the engine's own scheduler decides."""

from __future__ import annotations

from slidingserve.core.plan import Plan
from slidingserve.core.snapshot import Snapshot
from slidingserve.policies.base import PolicySettings
from slidingserve.predictor.model import Predictor


class Fcfs:
    """Leaves every step to vLLM."""

    name = "fcfs"

    def plan(self, snapshot: Snapshot, predictor: Predictor, settings: PolicySettings) -> Plan | None:
        """Always None."""
        return None
