"""The demo's load: people who talk (short prompts, a steady stream) and documents to summarise (long ones).

The numbers are for the demo model on one core: about 2,500 prefill tokens/s, so that a document takes over a
second, and a step of 512 tokens (the engine's batch budget under either policy) 0.2 s. In stock order a
dialogue waits behind every document that came before it. The engine is busy for about half of the time, so
that a machine with something else to do still carries the load.
"""

from __future__ import annotations

from dataclasses import dataclass

from slidingserve.bench import workload
from slidingserve.bench.workload import ClassMix, Item

STOCK = "fcfs"
OURS = "slidingserve_paper"

MIX = (
    ClassMix("dialogue", 0.65, (24, 72), (24, 40)),
    ClassMix("summarization", 0.35, (2000, 3600), (6, 10)),
)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests, Poisson rate (1/s) and seed of one block."""

    requests: int = 60
    rate: float = 0.9
    seed: int = 1

    def items(self) -> list[Item]:
        """The block's requests; the same seed gives the same requests under either policy."""
        return workload.generate(MIX, self.requests, self.rate, self.seed)


# Each policy meets each load once, and each goes first once.
BLOCKS: tuple[tuple[str, Load], ...] = (
    (STOCK, Load(seed=1)),
    (OURS, Load(seed=1)),
    (OURS, Load(seed=2)),
    (STOCK, Load(seed=2)),
)
