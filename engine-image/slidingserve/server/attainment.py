"""Was the promise kept? One `Tracker` for each HTTP request, judged by what its client sees.

Tokens are counted where vLLM's output processor delivers them (only there is their number known: a chunk of
the stream carries text), and stamped when the next part of the stream leaves the server (so that held-back
and merged deltas count at the time the client gets them). Without streaming a token's time is when it was
generated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from slidingserve.config import EngineConfig
from slidingserve.server.metrics import series
from slidingserve.server.promise import Asked, Promise

OBJECTIVES = ("ttft", "tbt", "request")


@dataclass
class ClassCounts:
    """Counts of one class since the start of this process, for the state endpoint; the same events as the
    metrics."""

    requests: int = 0
    good: int = 0
    violations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OBJECTIVES, 0))


class Counts:
    """Adds a verdict to the metrics and to the counts of this process."""

    def __init__(self) -> None:
        self.classes: dict[str, ClassCounts] = {}

    def know(self, slo_class: str) -> None:
        """List a class before its first request."""
        self.classes.setdefault(slo_class, ClassCounts())

    def request(self, slo_class: str) -> None:
        """A request was accepted, or refused for overload."""
        self.classes.setdefault(slo_class, ClassCounts()).requests += 1
        series("requests", slo_class).inc()

    def objective(self, slo_class: str, objective: str, kept: bool) -> None:
        """One objective of a request was kept or missed."""
        counts = self.classes.setdefault(slo_class, ClassCounts())
        if not kept:
            counts.violations[objective] += 1
        elif objective == "request":
            counts.good += 1
        series("slo_good" if kept else "slo_violations", slo_class, objective).inc()

    def clamped(self, slo_class: str) -> None:
        """A request asked for a limit that is nearer or further than any that is served."""
        series("deadlines_clamped", slo_class).inc()

    def disconnect(self, slo_class: str) -> None:
        """A client left before the end."""
        series("client_disconnects", slo_class).inc()


class Sequence:
    """One stream of tokens of a request (n > 1 and several prompts have several), held to equation 1."""

    def __init__(self, promise: Promise, arrival: float) -> None:
        """`arrival`: monotonic seconds."""
        self.promise = promise
        self.tokens = 0
        self.late_first = False
        self.late_later = False
        self.ended_well = False
        self._arrival = arrival
        self._last = arrival
        self._held = 0
        self._samples: list[tuple[str, float]] = []

    def due(self, tokens: int) -> float:
        """When the token after `tokens` delivered ones is due (equation 1), monotonic seconds."""
        return self._arrival + self.promise.ttft + tokens * self.promise.tbt

    def hold(self, count: int) -> None:
        """Take `count` tokens that the client has not been sent yet."""
        self._held += count

    def send(self, now: float) -> None:
        """Everything held leaves at `now`: each token is judged by its own deadline."""
        if not self._held:
            return
        count, self._held = self._held, 0
        gaps = count
        if self.tokens == 0:
            self.late_first = now > self.due(0)
            self._samples.append(("ttft_seconds", now - self._arrival))
            gaps -= 1
        # Of tokens that come together the first has the earliest deadline, the first later one decides for
        # all.
        if gaps:
            self.late_later |= now > self.due(max(self.tokens, 1))
            self._samples.append(("tbt_seconds", now - self._last if self.tokens else 0.0))
            self._samples.extend([("tbt_seconds", 0.0)] * (gaps - 1))
        self.tokens += count
        self._last = now

    def observe(self) -> None:
        """Put the times of the tokens so far into the histograms: their client sees them."""
        for name, seconds in self._samples:
            series(name, self.promise.slo_class).observe(seconds)
        self._samples.clear()

    def overdue(self, now: float) -> None:
        """The client left or the stream broke at `now`: what was due by then and had not come is late."""
        if now > self.due(self.tokens):
            if self.tokens == 0:
                self.late_first = True
            else:
                self.late_later = True

    def slack(self) -> float:
        """Deadline of the last token less the time it came, seconds."""
        return self.due(max(self.tokens - 1, 0)) - self._last


class Tracker:
    """One HTTP request that generates text, from arrival to its verdict."""

    def __init__(
        self,
        config: EngineConfig,
        asked: Asked,
        clock: Callable[[], float] = time.monotonic,
        delivered: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`delivered` is told how long after a token was made its part of the stream left, seconds."""
        self.config = config
        """In force at arrival; the request keeps it."""
        self.asked = asked
        self.arrival = clock()
        self.arrival_wall = time.time()
        self.slo_class = asked.slo_class or config.default_class
        self.streaming = False
        self.sequences: list[Sequence] = []
        self.promises: dict[str, Promise] = {}
        """By the front end's request id: one for each prompt."""
        self.forget: list[Callable[[], object]] = []
        """Called at the end: frees what the output processor keeps for this request."""
        self.promised = True
        """False for what generates nothing for the client that waits: it is not counted (see
        `plugin.note_unpromised`)."""
        self.refused = False
        """The client's own fault was found when a part of the request had been accepted."""
        self.beams: dict[str, Sequence] = {}
        """Beam search by prompt: its many requests are one sequence, a step of them a token."""
        self.closed = False
        """The exchange is over; what still runs on its behalf (a response in the background) is not
        followed."""
        self._clock = clock
        self._delivered = delivered
        self._made = 0.0

    def start(self, promise: Promise) -> Sequence:
        """A sequence of this request was accepted by the engine."""
        sequence = Sequence(promise, self.arrival)
        self.slo_class = promise.slo_class
        self.sequences.append(sequence)
        return sequence

    def generated(self, sequence: Sequence, count: int, made: float = 0.0) -> None:
        """The output processor got `count` new tokens, which the core had at `made` (monotonic; 0:
        unknown)."""
        sequence.hold(count)
        self._made = made
        if not self.streaming:
            sequence.send(self._clock())

    def sent(self) -> None:
        """A part of the streamed body leaves for the client."""
        now = self._clock()
        if self._made:
            self._delivered(now - self._made)
            self._made = 0.0
        for sequence in self.sequences:
            sequence.send(now)
            if self.streaming and not self.refused:
                sequence.observe()

    def close(self, counts: Counts, *, status: int, disconnected: bool) -> None:
        """Give the verdict and count it.

        `status`: of the HTTP response, 0 if none was started. What was refused for the client's own fault
        (400 to 499 without 429, or in an event of the stream) is no request, also if a part of it had been
        accepted by then. A request that never reached the engine counts only if it was refused for overload
        or failed (429, 500 and above). When the client left, what it had missed by then counts as missed and
        the rest not at all.
        """
        self.closed = True
        for forget in self.forget:
            forget()
        refused = not self.sequences and (status == 429 or status >= 500)
        faulty = not disconnected and (
            (400 <= status < 500 and status != 429) or (self.refused and status < 500)
        )
        if faulty or not self.promised or not (self.sequences or refused):
            return
        counts.request(self.slo_class)
        if any(sequence.promise.clamped for sequence in self.sequences):
            counts.clamped(self.slo_class)
        now = self._clock()
        if not self.streaming:
            self.sent()
        for sequence in self.sequences:
            sequence.observe()
        whole = not refused and all(sequence.ended_well for sequence in self.sequences) and 0 < status < 400
        if disconnected or not whole:
            for sequence in self.sequences:
                if not sequence.ended_well:
                    sequence.overdue(now)
        if disconnected:
            counts.disconnect(self.slo_class)
            self._count(counts, only_missed=True, whole=True)
            return
        for sequence in self.sequences:
            if sequence.tokens:
                series("slack_at_completion_seconds", self.slo_class).observe(sequence.slack())
        self._count(counts, only_missed=False, whole=whole)

    def _count(self, counts: Counts, *, only_missed: bool, whole: bool) -> None:
        first = bool(self.sequences) and not any(s.late_first for s in self.sequences)
        first = first and (whole or all(s.tokens for s in self.sequences))
        later = whole and not any(s.late_later for s in self.sequences)
        for objective, kept in (("ttft", first), ("tbt", later), ("request", first and later)):
            if not (only_missed and kept):
                counts.objective(self.slo_class, objective, kept)


CURRENT: ContextVar[Tracker | None] = ContextVar("slidingserve_request", default=None)
"""The request that this task serves; set by the middleware, read in the wrapper of process_inputs."""
