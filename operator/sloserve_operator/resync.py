"""LISTs beside the watches: the first fills the cache, the later ones check that the watches are alive.

Run by `watches` and `work`. Each pass also asks for a look at every resource, which is the level-triggered
safety net. What two LISTs in a row show and no watch told of is taken from the LIST, and held against the
watch: /livez then fails.

Of several namespaces one may be deleted, and the Role in it with it: it is left out, and the others are
served on. Each pass asks again for those left out. `changed` is set when the watches are to be begun anew
for other namespaces.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from .api import KIND
from .cache import Cache, Key, key_of, owner_key
from .kinds import LABELLED, WATCHED, Kind
from .kube import Kube, KubeError
from .queue import KeyedQueue
from .telemetry import Telemetry

log = structlog.stdlib.get_logger("sloserve.resync")


class Resync:
    """Compares LISTs with the cache. `dead_watch` is a sentence once a watch is known to be silent."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        queue: KeyedQueue,
        telemetry: Telemetry,
        namespaces: list[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._cache, self._queue, self._telemetry = kube, cache, queue, telemetry
        self._namespaces: list[str | None] = [*namespaces] or [None]
        self._clock = clock
        self._lagging: dict[str, dict[Key, int]] = {}
        self._absent: dict[str, str] = {}
        self._unseen: dict[tuple[str | None, str], str] = {}
        self.changed = asyncio.Event()
        self.last_success: float | None = None
        self.dead_watch: str | None = None

    @property
    def namespaces(self) -> list[str | None]:
        """Those that we are to serve; one None for all."""
        return self._namespaces

    def present(self) -> list[str]:
        """Those that can be served now; empty for the whole cluster."""
        return [name for name in self._namespaces if name and name not in self._absent]

    def remark(self) -> str:
        """What is left out, for a person; empty if nothing is."""
        said = [f"not served: namespace {name}: {why}" for name, why in self._absent.items()]
        said += [f"not seen: {why}" for why in dict.fromkeys(self._unseen.values())]
        return "; ".join(said)

    def unseen(self, namespace: str, kind: str) -> str:
        """Why a kind cannot be read in a namespace; empty if it can."""
        return self._unseen.get((namespace, kind)) or self._unseen.get((None, kind), "")

    def watched(self) -> list[Kind]:
        """The kinds that can be watched: those that can be listed wherever we serve."""
        blind = {kind for _, kind in self._unseen}
        return [kind for kind in WATCHED if kind.kind not in blind]

    async def prime(self) -> None:
        """Bring the cache to what exists, before the watches begin. KubeError if a LIST fails."""
        self._lagging.clear()
        self.dead_watch = None
        await self._each_namespace(self._fill)
        self.changed.clear()
        self._succeeded()

    async def _fill(self, kind: str, namespace: str | None) -> None:
        objects, version = await self._kube.list(kind, namespace)
        for obj in objects:
            self._cache.put(kind, obj)
        self._drop_vanished(kind, namespace, objects, version)

    async def check(self) -> None:
        """One pass: what the last pass listed and the cache still does not know never came by watch."""
        await self._each_namespace(self._compare)
        self._succeeded()

    async def _each_namespace(self, step: Callable[[str, str | None], Awaitable[None]]) -> None:
        """All kinds of each namespace. KubeError if all are refused, or one fails in another way.

        A child's kind that may not be read, or is not served, is passed over, and its resources say so.
        """
        absent: dict[str, KubeError] = {}
        unseen: dict[tuple[str | None, str], str] = {}
        for namespace in self._namespaces:
            try:
                await step(KIND, namespace)
                for kind in LABELLED:
                    try:
                        await step(kind.kind, namespace)
                    except KubeError as error:
                        if error.status not in (403, 404):
                            raise
                        unseen[namespace, kind.kind] = str(error)
            except KubeError as error:
                if error.status not in (403, 404) or namespace is None:
                    raise
                absent[namespace] = error
        if len(absent) == len({*self._namespaces}):
            raise next(iter(absent.values()))
        self._leave_out(absent)
        self._pass_over(unseen)

    def _pass_over(self, unseen: Mapping[tuple[str | None, str], str]) -> None:
        """Remember the kinds that cannot be read; the watches are begun anew without them, or with them."""
        if unseen.keys() != self._unseen.keys():
            self.changed.set()
        for scope, why in unseen.items():
            if scope not in self._unseen:
                remedy = "install the chart of the operator's own version: RBAC goes with it"
                log.warning("kind passed over", kind=scope[1], error=why, remedy=remedy)
        for scope in self._unseen.keys() - unseen.keys():
            log.info("kind read again", kind=scope[1])
        self._unseen = dict(unseen)

    def _leave_out(self, absent: Mapping[str, KubeError]) -> None:
        if absent.keys() != self._absent.keys():
            self.changed.set()
        for name, error in absent.items():
            if name not in self._absent:
                log.warning("namespace left out", absent=name, error=str(error))
            for kind in WATCHED:
                self._lagging.pop(f"{kind.kind}/{name}", None)
                for obj in self._cache.leave(kind.kind, name):
                    if owner := owner_key(kind.kind, obj):
                        self._queue.add(owner)
        for name in self._absent.keys() - absent.keys():
            log.info("namespace served again", present=name)
        self._absent = {name: str(error) for name, error in absent.items()}

    async def _compare(self, kind: str, namespace: str | None) -> None:
        objects, version = await self._kube.list(kind, namespace)
        if any(blind == kind for _, blind in self._unseen):  # elsewhere, and so it has no watch here either
            self._take(kind, objects)
            self._drop_vanished(kind, namespace, objects, version)
            return
        lagging = dict(self._cache.lagging(kind, objects))
        scope = f"{kind}/{namespace or ''}"
        missed = [
            key
            for key, seen in self._lagging.get(scope, {}).items()
            if key in lagging and self._cache.version(kind, key) < seen
        ]
        self._lagging[scope] = lagging
        self._telemetry.lagging.set(sum(map(len, self._lagging.values())))
        self._drop_vanished(kind, namespace, objects, version)
        if missed:
            self.dead_watch = f"the watch of {kind} is silent: {missed[0]} changed and no event came"
            log.error("watch is silent", kind=kind, objects=len(missed))
            self._take(kind, objects)

    def _take(self, kind: str, objects: Sequence[Mapping[str, Any]]) -> None:
        for obj in objects:
            if self._cache.put(kind, obj) and (owner := owner_key(kind, obj)):
                self._queue.add(owner)

    def _drop_vanished(
        self, kind: str, namespace: str | None, objects: Sequence[Mapping[str, Any]], version: int
    ) -> None:
        for obj in self._cache.vanished(kind, objects, version):
            if namespace in (None, key_of(obj)[0]):
                # The deletion may still be on its way by watch; dropping it twice does no harm.
                obj["metadata"]["resourceVersion"] = str(version)
                self._cache.drop(kind, obj)
                if owner := owner_key(kind, obj):
                    self._queue.add(owner)

    def _succeeded(self) -> None:
        self.last_success = self._clock()
        self._telemetry.last_list.set_to_current_time()
        self.look_at_all()

    def look_at_all(self) -> None:
        """Ask for a look at every known resource."""
        for key in self._cache.resources():
            self._queue.add(key)
