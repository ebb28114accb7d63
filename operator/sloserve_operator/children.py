"""Brings one child to what is desired: create, look, apply. Called by `reconcile` for each child in order.

Writes nothing when the live object holds all that we ask for, and never touches an object that is not ours.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from .api.conditions import Reason
from .api.resource import Object, SLOServe, controller_of
from .attempts import Attempt, Attempts
from .cache import Cache, Key, key_of
from .contest import Contests
from .desired.drift import drift
from .desired.names import APPLIED_HASH
from .kube import Kube, KubeError
from .ownership import foreign, held_back, last_writer, made_by_us
from .status import Problem
from .telemetry import Telemetry

OWN_ATTEMPTS = 5
log = structlog.stdlib.get_logger("sloserve.children")


class Again(Exception):  # noqa: N818 - not an error: the pass starts over with what is known now
    """What we knew was stale; look again at once."""


@dataclass
class Children:
    """Writer of children. `attempts`: what the API server did not take, and when to ask it again."""

    kube: Kube
    cache: Cache
    telemetry: Telemetry
    clock: Callable[[], float] = time.monotonic
    contests: Contests = field(default_factory=Contests)

    def __post_init__(self) -> None:
        self.attempts = Attempts(self.clock)

    async def ensure(self, resource: SLOServe, desired: Object) -> Problem | None:
        """Bring one child about.

        Returns: what stands in the way, or None. A write that fails for what may pass with time stands in the
        way of this child alone, and is tried again after a growing pause; `Problem.passing` until it has
        failed for so long that it is worth telling.

        Raises:
            Again: if the cache was stale.
            KubeError: if the API server asks for patience, or takes nothing from us any more.
        """
        memory = (resource.uid, desired["kind"])
        attempt = self._attempt(resource, desired)
        if known := self.attempts.known(memory, attempt):
            return known
        try:
            problem = await self._ensure(resource, desired)
        except KubeError as error:
            if error.status in (401, 429):
                raise
            return self.attempts.failed(memory, attempt, error)
        self.attempts.succeeded(memory)
        return problem

    def _attempt(self, resource: SLOServe, desired: Object) -> Attempt:
        live = self.cache.get(desired["kind"], key_of(desired))
        stamp = desired["metadata"]["annotations"][APPLIED_HASH]
        return stamp, resource.generation, live["metadata"]["uid"] if live else None

    async def _ensure(self, resource: SLOServe, desired: Object) -> Problem | None:
        kind, key = desired["kind"], key_of(desired)
        live = self.cache.get(kind, key)
        if live is None:
            return await self._create(resource, desired)
        if problem := foreign(resource, live):
            if not await self._orphan(resource, live):
                return problem
            log.info("adopted", kind=kind, child=key[1])
        if live["metadata"].get("deletionTimestamp"):
            # It is made anew when it is gone. A claim serves the pods that use it to their end.
            return None if kind == "PersistentVolumeClaim" else held_back(live)
        if field_path := drift(_comparable(desired), live):
            if live["metadata"]["createdOnly"]:
                await self._own(kind, key)
            await self._apply(resource, desired, live, field_path)
        if kind == "Deployment" and (text := self.contests.lasting((resource.uid, f"{kind} {key[1]}"))):
            return Problem(Reason.CONTESTED, text)
        return None

    async def _create(self, resource: SLOServe, desired: Object) -> Problem | None:
        kind, key = desired["kind"], key_of(desired)
        try:
            live = await self.kube.create(desired)
        except KubeError as error:
            self.telemetry.write(kind, "create", str(error.status))
            if error.status != 409:
                raise
            live = await self.kube.get(kind, *key) or {}
            if live and (problem := foreign(resource, live)) and not made_by_us(resource, live):
                return problem
            if live:
                self.cache.put(kind, live)
            raise Again from None
        self.telemetry.write(kind, "create")
        log.info("created", kind=kind, child=key[1])
        self.cache.put(kind, live)
        return None

    async def _orphan(self, resource: SLOServe, cached: Object) -> bool:
        """Whether it is a child of ours whose ownerReference somebody took away; the apply puts it back.

        Asked of the live object: the cache holds no managedFields.
        """
        if controller_of(cached):
            return False
        live = await self.kube.get(cached["kind"], *key_of(cached))
        return live is not None and made_by_us(resource, live)

    async def _own(self, kind: str, key: Key) -> None:
        """Before the first apply to what a POST made, which left our fields under another entry."""
        for _ in range(OWN_ATTEMPTS):
            live = await self.kube.get(kind, *key)
            if live is None:
                raise Again
            self.cache.put(kind, live)
            try:
                self.cache.put(kind, await self.kube.own(live))
            except KubeError as error:
                if error.status not in (409, 422):
                    raise
                # A controller wrote meanwhile, and the entries have moved.
            else:
                self.telemetry.write(kind, "own")
                return
        raise Again

    async def _apply(self, resource: SLOServe, desired: Object, live: Object, field_path: str) -> None:
        kind, name = desired["kind"], desired["metadata"]["name"]
        stamp = desired["metadata"]["annotations"][APPLIED_HASH]
        contest = (resource.uid, f"{kind} {name}")
        if pause := self.contests.lost(contest, stamp):
            # No error: the other children, live settings among them, and the status do not wait for this.
            self.telemetry.write(kind, "apply", "contested")
            if self.contests.news(contest):
                who = await self._writer(live)
                text = f"{kind} {name}: {field_path} is changed back each time, last by {who}"
                self.contests.remember(contest, f"{text}. Engines may run what that writer wants; stop it")
                log.warning("contested", kind=kind, child=name, error=text, again_in=round(pause, 1))
            return
        try:
            answer = await self.kube.apply(desired, live["metadata"]["uid"])
        except KubeError as error:
            self.telemetry.write(kind, "apply", str(error.status))
            if error.status in (404, 409, 422) and await self._replaced(live):
                raise Again from None
            raise
        self.telemetry.write(kind, "apply")
        log.info("applied", kind=kind, child=name, because=field_path)
        self.cache.put(kind, answer)

    async def _writer(self, cached: Object) -> str:
        """Who but us wrote the object last; the cache holds no such books."""
        try:
            live = await self.kube.get(cached["kind"], *key_of(cached)) or {}
        except KubeError:
            live = {}
        return last_writer((live.get("metadata") or {}).get("managedFields") or [])

    async def _replaced(self, live: Object) -> bool:
        """Whether the object that we meant is gone; the cache then says so too."""
        kind, key = live["kind"], key_of(live)
        now = await self.kube.get(kind, *key)
        if now and now["metadata"]["uid"] == live["metadata"]["uid"]:
            return False
        self.cache.drop(kind, live)
        if now:
            self.cache.put(kind, now)
        return True

    def have(self, resource: SLOServe, desired: Object) -> bool:
        """Whether the child is there and the resource's, in whatever shape."""
        live = self.cache.get(desired["kind"], key_of(desired))
        return live is not None and foreign(resource, live) is None

    async def prune(self, resource: SLOServe, desired: list[Object], kinds: set[str]) -> None:
        """Delete children of ours that are no longer desired; what cannot be deleted now is tried again."""
        wanted = {(obj["kind"], key_of(obj)) for obj in desired}
        for kind in kinds:
            for obj in self.cache.owned(kind, resource.key):
                ours = (controller_of(obj) or {}).get("uid") == resource.uid
                surplus = (kind, key_of(obj)) not in wanted
                if ours and surplus and not obj["metadata"].get("deletionTimestamp"):
                    await self._delete(obj)

    async def _delete(self, obj: Object) -> None:
        kind, name = obj["kind"], obj["metadata"]["name"]
        try:
            await self.kube.delete(obj)
        except KubeError as error:
            self.telemetry.write(kind, "delete", str(error.status))
            if error.status in (401, 429):
                raise
            log.warning("a child that is no longer wanted stays", kind=kind, child=name, error=error.message)
            return
        self.telemetry.write(kind, "delete")
        log.info("deleted", kind=kind, child=name)

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self.contests.forget(uid)
        self.attempts.forget(uid)


def _comparable(desired: Object) -> Object:
    """Without what only the path of the request says; metadata last, so that a log names the real cause."""
    rest = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": desired["metadata"]}
