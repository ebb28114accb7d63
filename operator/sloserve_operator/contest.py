"""Notices that somebody else keeps changing a child back, and then writes seldom. Used by `children`.

Two operators that serve one namespace by mistake and want different things, or a policy that undoes what we
apply, would otherwise answer each other's writes as fast as the API server takes them.
"""

import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 60.0
MOST_APPLIES = 5  # of one content to one child in the window; a repaired drift is one

Child = tuple[str, str]  # uid, kind


class Contests:
    """When each child was applied with the content that it is to have; another content is another matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._applied: dict[Child, tuple[str, deque[float]]] = {}
        self._told: dict[Child, float] = {}
        self._lost: dict[Child, tuple[float, str]] = {}

    def lost(self, child: Child, content: str) -> float:
        """Count one apply that is about to be made. Returns: seconds to wait instead; 0 to go on."""
        now = self._clock()
        known, times = self._applied.get(child, ("", deque[float]()))
        if known != content:
            times = deque[float]()
        self._applied[child] = (content, times)
        while times and times[0] <= now - WINDOW_SECONDS:
            times.popleft()
        if len(times) >= MOST_APPLIES:
            return times[0] + WINDOW_SECONDS - now
        times.append(now)
        return 0.0

    def news(self, child: Child) -> bool:
        """Whether nobody was told yet of the pause that `lost` just asked for."""
        since = self._applied[child][1][0]
        known, self._told[child] = self._told.get(child), since
        return known != since

    def remember(self, child: Child, sentence: str) -> None:
        """What is said of a contest while it lasts."""
        self._lost[child] = (self._clock(), sentence)

    def lasting(self, child: Child) -> str:
        """The sentence on a contest that was lost within the last window and a half; "" if there is none.

        Half a window longer, because the applies that are then tried again need a moment to be lost again.
        """
        since, sentence = self._lost.get(child, (float("-inf"), ""))
        if self._clock() - since < 1.5 * WINDOW_SECONDS:
            return sentence
        self._lost.pop(child, None)
        return ""

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        for child in [c for c in self._applied if c[0] == uid]:
            del self._applied[child]
            self._told.pop(child, None)
            self._lost.pop(child, None)
