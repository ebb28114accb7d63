"""The demo's load: people who talk (short prompts, a tight stream) and documents to summarise (long prompts).

The numbers are for the demo model on one core (about 1,000 prefill tokens/s): a document fills a whole
stock step, so that every stream in progress stops for a second or two, at a load the engine can well carry.
"""

from __future__ import annotations

from dataclasses import dataclass

from slidingserve.bench import workload
from slidingserve.bench.workload import ClassMix, Item

STOCK = "fcfs"
OURS = "slidingserve_paper"

MIX = (
    ClassMix("dialogue", 0.8, (24, 72), (24, 40)),
    ClassMix("summarization", 0.2, (1400, 1900), (6, 10)),
)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests, Poisson rate (1/s) and seed of one block."""

    requests: int = 60
    rate: float = 0.8
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
