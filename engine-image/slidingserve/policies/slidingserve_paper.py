"""The paper's method, first form: sort the prefills, reserve the decodes, fit the chunk to the slack.

Read `plan` from top to bottom: it is Figure 3 without the second iteration of the window and the
BatchConstructor.
"""

from __future__ import annotations

from slidingserve.core.chunker import chunk, current_window
from slidingserve.core.forwarder import BatchForwarder
from slidingserve.core.plan import Plan
from slidingserve.core.queue import room
from slidingserve.core.snapshot import Snapshot
from slidingserve.core.sorter import sort_prefills
from slidingserve.policies.base import PolicySettings
from slidingserve.predictor.features import Features
from slidingserve.predictor.model import LatencyModel


class SlidingServePaper:
    """SlidingServe as published, with the choices that docs/method.md states."""

    name = "slidingserve_paper"

    def plan(self, snapshot: Snapshot, model: LatencyModel, settings: PolicySettings) -> Plan | None:
        """The next batch. An empty snapshot gives an empty plan."""
        order = sort_prefills(
            snapshot,
            alpha=settings.alpha,
            throughput=_throughput(snapshot, model),
            epsilon=settings.epsilon,
            late=settings.late,
        )
        decodes, prefills, most = room(snapshot, order, settings.max_chunk)
        cached = snapshot.computed_tokens
        forwarder = BatchForwarder(model, cached[decodes], snapshot.remaining[prefills], cached[prefills])
        budget, reason = chunk(
            forwarder,
            current_window(snapshot.slack[decodes]),
            len(decodes) + most,
            min_chunk=settings.min_chunk,
            margin=settings.margin,
            tight=settings.tight,
        )
        seconds, counts = forwarder.forward(budget)
        ids = snapshot.ids
        tokens = dict.fromkeys([ids[row] for row in decodes.tolist()], 1)
        tokens.update(zip([ids[row] for row in prefills[: len(counts)].tolist()], counts, strict=True))
        return Plan(
            branch="chunker",
            budget=budget,
            tokens=tokens,
            order=[ids[row] for row in order.tolist()],
            predicted_seconds=seconds,
            predicted_features=forwarder.features(budget),
            reason=reason,
        )


def _throughput(snapshot: Snapshot, predictor: LatencyModel) -> float:
    """ρ: as measured lately, or before anything was, what a full batch of prefill should reach."""
    if snapshot.throughput > 0:
        return snapshot.throughput
    n = float(snapshot.max_tokens)
    return n / predictor.predict(Features(n * n, n * n, 0.0, 0.0, 0.0, n, n))
