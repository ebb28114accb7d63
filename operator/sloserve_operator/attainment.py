"""How the promise is kept: counts of the engines over a window, judged by class. `status` shows the verdict.

An engine counts since it started. `Window` remembers what each said for `WINDOW_SECONDS`, so that a class is
judged by its last ten minutes; one with too few requests in them, and all after a start of the operator, by
everything since the engines started. The verdict's sentence says which of the two it was.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .api.conditions import Condition, Reason, Status
from .api.spec_slo import SLOClass
from .view import PodView

WINDOW_SECONDS = 600
IDLE_SECONDS = 180.0
"""Without a request for so long a class is not judged: with twenty in ten minutes, one gap in 400 is as long.
"""
FEWEST_REQUESTS = 20
"""Below, a share says nothing: of 19 requests one miss is 5 %."""
# Samples of one pod, evenly in the window; more would be memory for nothing.
SPACING_SECONDS = 10.0
Counts = Mapping[str, tuple[int, int]]


@dataclass
class Window:
    """Memory of the engines' counts; never needed, and lost at a start."""

    _samples: dict[str, deque[tuple[float, Counts]]] = field(default_factory=dict)
    _last: dict[str, Counts] = field(default_factory=dict)
    _busy: dict[str, float] = field(default_factory=dict)

    def idle(self, pods: Iterable[PodView], now: float) -> frozenset[str]:
        """Classes of which no request has ended for `IDLE_SECONDS`, as far as this memory goes; none while a
        pod is out of reach, which may be busy."""
        last, unread = {}, False
        for pod in pods:
            unread |= pod.state is None
            counts, before = of_pod(pod), self._last.get(pod.uid, {})
            for name, (_, count) in counts.items():
                if pod.uid in self._last and count > before.get(name, (0, 0))[1]:
                    self._busy[name] = now
                self._busy.setdefault(name, now)
            last[pod.uid] = counts or before
        self._last = last
        return frozenset(name for name, at in self._busy.items() if now - at >= IDLE_SECONDS and not unread)

    def recent(self, pods: Iterable[PodView], now: float) -> Counts:
        """(good, all) by class within the window before `now`; empty until it is known that far back."""
        total: dict[str, tuple[int, int]] = {}
        seen, known = set(), True
        for pod in pods:
            seen.add(pod.uid)
            if pod.state is None:
                continue
            counts = of_pod(pod)
            since = self._since(pod.uid, counts, now)
            known &= since is not None
            for name, (good, count) in counts.items():
                before = (since or {}).get(name, (0, 0))
                was = total.get(name, (0, 0))
                more = max(count - before[1], 0)
                total[name] = (was[0] + min(max(good - before[0], 0), more), was[1] + more)
        for uid in set(self._samples) - seen:
            del self._samples[uid]
        return total if known else {}

    def _since(self, uid: str, counts: Counts, now: float) -> Counts | None:
        """What a pod had counted when the window began: nothing, if it was seen to start within it."""
        samples = self._samples.setdefault(uid, deque())
        fresh = not samples and not any(count for _, count in counts.values())
        restarted = samples and any(
            _fell(counts.get(name, (0, 0)), was) for name, was in samples[-1][1].items()
        )
        if fresh or restarted:
            samples.clear()
            samples.append((float("-inf"), {}))
        if not samples or now - samples[-1][0] >= SPACING_SECONDS:
            samples.append((now, dict(counts)))
        while len(samples) > 1 and samples[1][0] <= now - WINDOW_SECONDS:
            samples.popleft()
        return samples[0][1] if samples[0][0] <= now - WINDOW_SECONDS else None


def _fell(now: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether a count went back, which only a new start does."""
    return now[0] < before[0] or now[1] < before[1]


def of_pod(pod: PodView) -> Counts:
    """(good, all) by class since its engine started."""
    classes = pod.state.classes if pod.state else {}
    return {name: (c.good, c.good + c.violations.get("request", 0)) for name, c in classes.items()}


@dataclass(frozen=True)
class Figure:
    """One class: how many of its requests were good, and over which time they were counted."""

    slo: SLOClass
    good: int
    count: int
    recent: bool
    idle: bool = False

    @property
    def enough(self) -> bool:
        """Whether a share of so many says anything about now."""
        return self.count >= FEWEST_REQUESTS and not self.idle

    @property
    def kept(self) -> bool:
        """Whether the objective is met."""
        return 100 * self.good >= self.slo.objective_percent * self.count

    @property
    def met(self) -> Status:
        """The same as a condition has it."""
        return "Unknown" if not self.enough else "True" if self.kept else "False"

    @property
    def percent(self) -> str:
        """Rounded down, so that what is below the objective never reads as the objective."""
        return floor_percent(self.good / self.count, self.slo.objective_percent)

    @property
    def over(self) -> str:
        """The time that it was counted over."""
        minutes = f"the last {WINDOW_SECONDS // 60} minutes"
        return minutes if self.recent else "the time since the engines started"


def floor_percent(share: float, objective: float = 0) -> str:
    """`99.4 %`, with as many decimals as the objective has, at least one."""
    decimals = max(1, len(f"{objective:.10g}".partition(".")[2]))
    scale = 10**decimals
    return f"{int(share * 100 * scale + 1e-6) / scale:.{decimals}f} %"


def figures(
    classes: Sequence[SLOClass], pods: Iterable[PodView], recent: Counts, idle: frozenset[str] = frozenset()
) -> list[Figure]:
    """One of each class of the spec. Of an idle one it is everything since the engines started: a figure that
    stands still, where a window that empties would move it."""
    since_start: dict[str, tuple[int, int]] = {}
    for pod in pods:
        for name, (good, count) in of_pod(pod).items():
            was = since_start.get(name, (0, 0))
            since_start[name] = (was[0] + good, was[1] + count)
    out = []
    for slo in classes:
        good, count = recent.get(slo.name, (0, 0))
        in_window = count >= FEWEST_REQUESTS and slo.name not in idle
        if not in_window:
            good, count = since_start.get(slo.name, (0, 0))
        out.append(Figure(slo, good, count, in_window, slo.name in idle))
    return out


def overall(found: Sequence[Figure]) -> str:
    """Mean of the classes' attainment by their weights; "" while no class has had a request."""
    seen = [figure for figure in found if figure.count]
    if not seen:
        return ""
    weights = sum(figure.slo.weight for figure in seen)
    return floor_percent(sum(f.slo.weight * f.good / f.count for f in seen) / weights)


def slo_met(found: Sequence[Figure]) -> Condition:
    """Whether every class that had enough requests keeps its objective; the message names the worst."""
    judged = [figure for figure in found if figure.enough]
    if not judged and any(figure.idle and figure.count >= FEWEST_REQUESTS for figure in found):
        text = f"no class has had a request for {IDLE_SECONDS / 60:.0f} minutes: there is nothing to judge"
        return Condition("SLOMet", "Unknown", Reason.IDLE, text)
    if not judged:
        most = max((figure.count for figure in found), default=0)
        text = f"no class has had {FEWEST_REQUESTS} requests yet, the most is {most}: too few to judge"
        return Condition("SLOMet", "Unknown", Reason.TOO_FEW_REQUESTS, text)
    worst = min(judged, key=_margin)
    text = (
        f"class {worst.slo.name} kept its promise for {worst.percent} of {worst.count} requests in"
        f" {worst.over}; its objective is {worst.slo.objective_percent:.10g} %"
    )
    if worst.kept:
        return Condition("SLOMet", "True", Reason.OBJECTIVES_MET, f"the worst of {len(judged)}: {text}")
    more = sum(not figure.kept for figure in judged) - 1
    if more:
        text += f"; {more} more {'class misses' if more == 1 else 'classes miss'} theirs"
    return Condition("SLOMet", "False", Reason.OBJECTIVE_MISSED, text)


def _margin(figure: Figure) -> float:
    """Share of the error budget that is left; below zero it is missed."""
    allowed = 1 - figure.slo.objective_percent / 100
    return 1 - (1 - figure.good / figure.count) / allowed
