"""What a run leaves: when each token came, the batches if asked for, counters. In the trace's order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slidingserve.core.columns import Bools, Floats, Ints
from slidingserve.predictor.quality import Quality, score
from slidingserve.workloads.trace import Trace, offsets_of


@dataclass(frozen=True, eq=False)
class Steps:
    """Every batch, b of them, in the order in which they ran; times in seconds."""

    start: Floats
    seconds: Floats
    """As it took, noise and all."""
    predicted: Floats
    """By the model that was in force when it started: the predictor's live record."""
    features: Floats
    """Table 1, shape (b, 7)."""
    scene: Ints
    """0 decode, 1 prefill, 2 mixed."""
    tokens: Ints
    decodes: Ints
    branch: Ints
    """Index into `core.columns.BRANCHES`."""
    budget: Ints
    """As the policy reckoned it."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def quality(self) -> dict[str, Quality]:
        """How good the predictions in force were, by scene and overall, no batch left out."""
        return score(self.predicted, self.seconds, self.scene)


@dataclass(frozen=True)
class Counters:
    """Sums over a run."""

    iterations: int
    seconds: float
    """Simulated time to the last token."""
    preemptions: int
    prompt_tokens: int
    """Tokens of all admissions, those after a preemption too."""
    hit_tokens: int
    """How many of them the prefix cache had."""
    plan_errors: int
    """Steps that a plan left without work, so that vLLM's own order served them."""


@dataclass(frozen=True, eq=False)
class Result:
    """One run of n requests, drained to the last token. Times in seconds on the trace's clock."""

    trace: Trace
    ttft_limit: Floats
    tbt_limit: Floats
    times: Floats
    """When each token was delivered, all tokens of request 0, then of request 1, and so on."""
    preempted: Ints
    """How often each request was; shape n."""
    relegated: Bools
    counters: Counters
    quality: dict[str, Quality]
    """Of the predictions that were in force, by scene and overall."""
    steps: Steps | None = None

    @cached_property
    def _start(self) -> Ints:
        return offsets_of(self.trace.output_tokens)

    @cached_property
    def _owner(self) -> Ints:
        """The request of each token."""
        return np.repeat(np.arange(len(self.trace)), self.trace.output_tokens)

    @cached_property
    def _late(self) -> Bools:
        """Which tokens came past their deadline of equation 1, which a late token never moves."""
        owner = self._owner
        k = np.arange(len(owner)) - self._start[owner]
        due = (self.trace.arrival + self.ttft_limit)[owner] + k * self.tbt_limit[owner]
        late: Bools = self.times > due
        return late

    @cached_property
    def first(self) -> Floats:
        """When the first token came, shape n."""
        return self.times[self._start[:-1]]

    @cached_property
    def finish(self) -> Floats:
        """When the last token came, shape n."""
        return self.times[self._start[1:] - 1]

    @property
    def ttft(self) -> Floats:
        """Seconds from arrival to the first token."""
        return self.first - self.trace.arrival

    @property
    def tpot(self) -> Floats:
        """Mean seconds between tokens; 0 with one token."""
        return (self.finish - self.first) / np.maximum(self.trace.output_tokens - 1, 1)

    @property
    def end_to_end(self) -> Floats:
        """Seconds from arrival to the last token."""
        return self.finish - self.trace.arrival

    def gaps(self, rows: Bools) -> Floats:
        """Seconds between tokens of the requests in `rows` (a mask of shape n): TBT as it is measured."""
        owner = self._owner
        gaps = np.diff(self.times)
        wanted: Floats = gaps[(owner[1:] == owner[:-1]) & rows[owner[1:]]]
        return wanted

    @cached_property
    def longest_gap(self) -> Floats:
        """Between two tokens of each request; 0 with one token."""
        gaps = np.diff(self.times, prepend=0.0)
        gaps[self._start[:-1]] = 0.0
        longest: Floats = np.maximum.reduceat(gaps, self._start[:-1])
        return longest

    @cached_property
    def missed_ttft(self) -> Bools:
        """The first token came after its deadline."""
        return self._late[self._start[:-1]]

    @cached_property
    def late_tokens(self) -> Ints:
        """How many tokens after the first came after theirs."""
        every: Ints = np.add.reduceat(self._late, self._start[:-1], dtype=np.int64)
        return every - self.missed_ttft

    @property
    def missed_tbt(self) -> Bools:
        """Any token after the first came after its deadline."""
        return self.late_tokens > 0

    @property
    def missed(self) -> Bools:
        """Any token came after its deadline: the request's objective."""
        return self.missed_ttft | self.missed_tbt
