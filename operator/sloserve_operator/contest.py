"""Notices that somebody else keeps changing a child back, and then writes seldom. Used by `children`.

Two operators that serve one namespace by mistake and want different things, or a policy that undoes what we
apply, would otherwise answer each other's writes as fast as the API server takes them.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

WINDOW_SECONDS = 60.0
MOST_APPLIES = 5  # of one content to one child in the window; a repaired drift is one

Child = tuple[str, str]  # uid, kind


class Contests:
    """When each child was applied with the content that it is to have; another content is another matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._applied: dict[Child, tuple[str, deque[float]]] = {}
        self._told: dict[Child, float] = {}
        self._text: dict[Child, str] = {}
        self._lost: dict[Child, float] = {}

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
            self._lost[child] = now
            return times[0] + WINDOW_SECONDS - now
        times.append(now)
        return 0.0

    def news(self, child: Child) -> bool:
        """Whether nobody was told yet of the pause that `lost` just asked for."""
        since = self._applied[child][1][0]
        known, self._told[child] = self._told.get(child), since
        return known != since

    def tell(self, child: Child, text: str) -> None:
        """Remember what to say of this contest while it lasts."""
        self._text[child] = text

    def standing(self, child: Child) -> str:
        """What to say of a contest; "" a window after it was last lost, so that no condition flaps."""
        if self._clock() - self._lost.get(child, float("-inf")) >= WINDOW_SECONDS:
            self._text.pop(child, None)
        return self._text.get(child, "")

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        for child in [c for c in self._applied if c[0] == uid]:
            del self._applied[child]
            for memory in (self._told, self._text, self._lost):
                memory.pop(child, None)


def writer_of(live: Mapping[str, Any], path: str, ours: str) -> str:
    """The field manager, other than `ours`, that owns a field of `drift`'s path; "" if none says so."""
    words = [word for word in path.replace("]", "").replace("[", ".").split(".") if word]
    best, depth = "", 0
    entries = (live.get("metadata") or {}).get("managedFields") or []
    for entry in sorted(entries, key=lambda e: str(e.get("time", "")), reverse=True):
        if entry.get("manager") != ours and (found := _owned(entry.get("fieldsV1") or {}, words)) > depth:
            best, depth = str(entry.get("manager", "")), found
    return best


def _owned(fields: Mapping[str, Any], words: list[str]) -> int:
    """How many words of the path these fields reach."""
    if not words:
        return 0
    if (inner := fields.get(f"f:{words[0]}")) is not None:
        return 1 + _owned(inner, words[1:])
    # An item of a list: by its key, which the path tells without the key's name; or a key with dots in it.
    items = [v for k, v in fields.items() if k[:2] in ("k:", "v:") and f'"{words[0]}"' in k]
    return 1 + max(_owned(item, words[1:]) for item in items) if items else 0
