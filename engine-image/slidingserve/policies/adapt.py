"""A compiled policy for people and for the engine: Snapshot -> Columns -> Decision -> Plan."""

from __future__ import annotations

from collections.abc import Callable

from slidingserve.core.batch import batch_of
from slidingserve.core.columns import BRANCHES, REASONS, Columns, Decision, Weights
from slidingserve.core.plan import Plan
from slidingserve.core.settings import PolicySettings, Settings
from slidingserve.core.snapshot import Snapshot
from slidingserve.predictor.model import LatencyModel


class CompiledPolicy:
    """A policy by its name and its compiled function."""

    def __init__(self, name: str, plan: Callable[[Columns, Weights, Settings], Decision]) -> None:
        self.name = name
        self._plan = plan

    def plan(self, snapshot: Snapshot, model: LatencyModel, settings: PolicySettings) -> Plan | None:
        """The next batch. An empty snapshot gives an empty plan."""
        columns = snapshot.columns
        return plan_of(snapshot, columns, self._plan(columns, model.matrix, settings.compiled()))


def plan_of(snapshot: Snapshot, columns: Columns, decision: Decision) -> Plan:
    """The decision with ids. Decodes come first, then prefills in service order."""
    ids = snapshot.ids
    counts = decision.tokens.tolist()
    order = decision.order.tolist()
    tokens = {ids[row]: 1 for row in snapshot.is_decode.nonzero()[0].tolist() if counts[row]}
    tokens.update([(ids[row], counts[row]) for row in order if counts[row]])
    fresh = decision.relegated & ~columns.relegated
    return Plan(
        branch=BRANCHES[decision.branch],
        budget=int(decision.budget),
        tokens=tokens,
        order=[ids[row] for row in order],
        predicted_seconds=float(decision.seconds),
        predicted_features=batch_of(columns, decision.tokens),
        relegated=[ids[row] for row in fresh.nonzero()[0].tolist()] if fresh.any() else [],
        reason=REASONS[decision.reason],
    )
