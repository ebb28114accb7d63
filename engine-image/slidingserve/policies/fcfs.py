"""First come, first served: vLLM's own order.

In the engine this policy plans nothing and vLLM decides. The compiled `plan` is for the simulator: the order
and the limits of vLLM 0.32's `schedule()`. What happens when the KV cache runs short (preemption of the last
running request, no admissions) is the engine's business, simulated or real.
"""

from __future__ import annotations

import numpy as np

from slidingserve.core.batch import DECODE, WAITING
from slidingserve.core.columns import FIXED_BUDGET, STOCK, Columns, Decision, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.plan import Plan
from slidingserve.core.settings import PolicySettings, Settings
from slidingserve.core.snapshot import Snapshot
from slidingserve.core.sorter import prefill_rows
from slidingserve.policies.fixed import decided
from slidingserve.predictor.model import LatencyModel


@compiled
def plan(columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """Running requests in order, decodes and prefills alike, then waiting ones, until the budget is spent."""
    tokens = np.zeros(len(columns.phase), np.int64)
    left = columns.max_tokens if settings.budget == 0 else min(columns.max_tokens, settings.budget)
    admissions = columns.max_admissions
    for row in range(len(tokens)):
        if left == 0:
            break
        if columns.phase[row] == WAITING:
            if admissions == 0:
                break
            admissions -= 1
        tokens[row] = 1 if columns.phase[row] == DECODE else min(columns.remaining[row], left)
        left -= tokens[row]
    return decided(columns, weights, prefill_rows(columns), tokens, STOCK, FIXED_BUDGET)


class Fcfs:
    """Leaves every step to vLLM."""

    name = "fcfs"

    def plan(self, snapshot: Snapshot, model: LatencyModel, settings: PolicySettings) -> Plan | None:
        """Always None."""
        return None
