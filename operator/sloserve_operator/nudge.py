"""Which pods to nudge so that they read their new settings, and when to look again. Called by `reconcile`.

A pod that reported other settings than those written is nudged at once, then with growing pauses until it
reports them or refuses them. A pod that has never reported reads its settings at its start;
it is left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from . import backoff
from .desired.config import Written
from .view import PodView, label

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 60.0
# (seconds since the settings were written, seconds to the next look at the engines)
LOOKS = ((10.0, 0.25), (60.0, 1.0), (float("inf"), 5.0))


@dataclass
class _Pending:
    wanted: Written
    since: float
    count: int = 0
    next_at: float = 0.0


class Nudges:
    """Memory of what was sent; lost at a restart, which costs one nudge more."""

    def __init__(self) -> None:
        self._reported: dict[str, Written] = {}
        self._pending: dict[str, _Pending] = {}

    def due(self, pods: Iterable[PodView], wanted: Written, now: float) -> list[tuple[PodView, str]]:
        """(pod, annotation value) for every pod to nudge at monotonic time `now`."""
        out = []
        for pod in pods:
            if pod.state and pod.state.applied.revision:
                self._reported[pod.uid] = label(pod.state.applied)
            if not self._behind(pod, wanted):
                self._pending.pop(pod.uid, None)
                continue
            pending = self._pending.get(pod.uid)
            if pending is None or pending.wanted != wanted:
                pending = self._pending[pod.uid] = _Pending(wanted, since=now)
            if now < pending.next_at:
                continue
            # A value of its own each time: the kubelet acts on a change.
            value = f"{wanted.revision}.{wanted.generation}"
            out.append((pod, value if pending.count == 0 else f"{value}.{pending.count}"))
            pending.next_at = now + backoff.pause(pending.count, FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS)
            pending.count += 1
        return out

    def _behind(self, pod: PodView, wanted: Written) -> bool:
        rejected = pod.state.rejected if pod.state else None
        if rejected and label(rejected) == wanted:
            return False
        return self._reported.get(pod.uid, wanted) != wanted

    def next_look(self, pods: Iterable[PodView], now: float) -> float | None:
        """Seconds until the engines should be asked again; None when no pod is awaited."""
        ages = [now - self._pending[pod.uid].since for pod in pods if pod.uid in self._pending]
        if not ages:
            return None
        return next(pause for age, pause in LOOKS if min(ages) < age)

    def keep(self, uids: set[str]) -> None:
        """Forget pods that are gone."""
        for known in (self._reported, self._pending):
            for uid in set(known) - uids:
                del known[uid]
