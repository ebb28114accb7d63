"""Runs the same load under each policy on one engine, switched live, by the engine's own metrics."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slidingserve.bench.client import Result, Target
from slidingserve.bench.replay import Observer, replay

from tests.demo.engine import Engine, Kept, kept_by_class
from tests.demo.load import Load
from tests.demo.summary import Row, rows


@dataclass
class Totals:
    """What a policy's blocks add up to."""

    kept: dict[str, Kept] = field(default_factory=lambda: defaultdict(Kept))
    results: list[Result] = field(default_factory=list)


PATIENCE = 900.0
"""Seconds that a request may take: on a busy machine its promise is long broken, but it is answered."""


class DemoError(RuntimeError):
    """The demo cannot go on; the text is for the user."""


def busy(load: float, cores: int) -> str:
    """What to do about a machine that has too much else to do; empty for one that has not."""
    if load < 2 * cores:
        return ""
    return f"This machine is busy (load {load:.0f} on {cores} cores): try again when it is quiet."


def run_block(engine: Engine, model: str, number: int, load: Load, observer: Observer) -> Totals:
    """One block on a drained engine: the counters' difference, and the client's rows.

    Raises DemoError if a request failed: a comparison with holes is none.
    """
    engine.wait_drained()
    before = kept_by_class(engine.metrics())
    target = Target(engine.api, model, load.seed, timeout=PATIENCE, cache_salt=f"demo-block-{number}")
    results = asyncio.run(replay(load.items(), target, observer=observer))
    failed = [result for result in results if not result.ok]
    if failed:
        first = f"{len(failed)} of {len(results)} requests failed, the first with: {failed[0].error}"
        raise DemoError(f"{first}. {busy(os.getloadavg()[0], os.cpu_count() or 1)}".strip())
    engine.wait_drained()
    after = kept_by_class(engine.metrics())
    counted = {name: kept - before.get(name, Kept()) for name, kept in after.items()}
    if (seen := sum(kept.requests for kept in counted.values())) != len(results):
        raise DemoError(
            f"sent {len(results)} requests but the engine counted {seen}: does another client use it?"
        )
    return Totals(counted, results)


def compare(
    engine: Engine,
    blocks: Sequence[tuple[str, Load]],
    switch: Callable[[str], None],
    observer_of: Callable[[int, str, Load], Observer],
) -> list[Row]:
    """Run the blocks in order; ``switch`` makes a policy the one in force, without a restart."""
    model = engine.models()[0]
    totals: dict[str, Totals] = defaultdict(Totals)
    for number, (policy, load) in enumerate(blocks, start=1):
        switch(policy)
        block = run_block(engine, model, number, load, observer_of(number, policy, load))
        totals[policy].results.extend(block.results)
        for name, kept in block.kept.items():
            totals[policy].kept[name] += kept
    return [row for policy, total in totals.items() for row in rows(policy, total.kept, total.results)]
