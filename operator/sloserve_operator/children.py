"""Brings one child to what is desired: create, look, apply. Called by `reconcile` for each child in order.

Writes nothing when the live object holds all that we ask for, and never touches an object that is not ours.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from .api.conditions import Reason
from .api.resource import Object, SLOServe, controller_of
from .cache import Cache, Key, key_of
from .contest import Contests, writer_of
from .desired.drift import drift
from .desired.names import APPLIED_HASH, MANAGED_BY, MANAGER, NAME_LABEL
from .kube import Kube, KubeError
from .status import Problem
from .telemetry import Telemetry
from .troubles import Attempt, Troubles

OWN_ATTEMPTS = 5
log = structlog.stdlib.get_logger("sloserve.children")


class Again(Exception):  # noqa: N818 - not an error: the pass starts over with what is known now
    """What we knew was stale; look again at once."""


@dataclass
class Children:
    """Writer of children. What the API server does not take is remembered in `troubles`, so that it is asked
    again with pauses, and nothing else waits for it."""

    kube: Kube
    cache: Cache
    telemetry: Telemetry
    clock: Callable[[], float] = time.monotonic
    contests: Contests = field(default_factory=Contests)

    def __post_init__(self) -> None:
        self.troubles = Troubles(self.clock)

    async def ensure(self, resource: SLOServe, desired: Object) -> Problem | None:
        """Bring one child about.

        Returns: what stands in the way, or None.

        Raises:
            Again: if the cache was stale.
        """
        child = (resource.uid, desired["kind"], desired["metadata"]["name"])
        attempt = self._attempt(resource, desired)
        if known := self.troubles.waits(child, attempt):
            return known
        try:
            problem = await self._ensure(resource, desired)
        except KubeError as error:
            return self.troubles.failed(child, attempt, error)
        self.troubles.over(child)
        return problem

    def unsteady(self, resource: SLOServe, desired: Object) -> Problem:
        """Of a child that was another each time it was to be written."""
        kind, name = desired["kind"], desired["metadata"]["name"]
        error = KubeError(f"write {kind} {name}", 409, "it changes faster than it can be read")
        return self.troubles.failed((resource.uid, kind, name), self._attempt(resource, desired), error)

    def _attempt(self, resource: SLOServe, desired: Object) -> Attempt:
        live = self.cache.get(desired["kind"], key_of(desired))
        stamp = desired["metadata"]["annotations"][APPLIED_HASH]
        return stamp, resource.generation, live["metadata"]["uid"] if live else None

    async def _ensure(self, resource: SLOServe, desired: Object) -> Problem | None:
        kind, key = desired["kind"], key_of(desired)
        live = self.cache.get(kind, key)
        if live is None:
            return await self._create(resource, desired)
        if problem := _foreign(resource, live):
            if not await self._orphan(resource, live):
                return problem
            log.info("adopted", kind=kind, child=key[1])
        if live["metadata"].get("deletionTimestamp"):
            return being_deleted(live)  # it is made anew when it is gone
        contest = (resource.uid, f"{kind} {key[1]}")
        if field_path := drift(_comparable(desired), live):
            stamp = desired["metadata"]["annotations"][APPLIED_HASH]
            if pause := self.contests.lost(contest, stamp):
                await self._tell_of_contest(contest, live, field_path, pause)
            else:
                if live["metadata"]["createdOnly"]:
                    await self._own(kind, key)
                await self._apply(desired, live, field_path)
        text = self.contests.standing(contest)
        return Problem(Reason.CHILD_CONTESTED, text) if text else None

    async def _create(self, resource: SLOServe, desired: Object) -> Problem | None:
        kind, key = desired["kind"], key_of(desired)
        try:
            live = await self.kube.create(desired)
        except KubeError as error:
            self.telemetry.write(kind, "create", str(error.status))
            if error.status != 409:
                raise
            live = await self.kube.get(kind, *key) or {}
            if live and (problem := _foreign(resource, live)) and not made_by_us(resource, live):
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

    async def _tell_of_contest(
        self, contest: tuple[str, str], cached: Object, field_path: str, pause: float
    ) -> None:
        """No error: the other children, live settings among them, and the status do not wait for this."""
        kind, key = cached["kind"], key_of(cached)
        self.telemetry.write(kind, "apply", "contested")
        if not self.contests.news(contest):
            return
        live = await self.kube.get(kind, *key) or cached
        who = writer_of(live, field_path, MANAGER)
        by = f"by field manager {who}" if who else "by an admission policy or a second operator"
        text = f"apply {kind} {key[1]}: {field_path} is changed back each time {by}: stop that writer"
        if text != self.contests.standing(contest):
            log.warning("contested", kind=kind, child=key[1], error=text, again_in=round(pause, 1))
        self.contests.tell(contest, text)

    async def _apply(self, desired: Object, live: Object, field_path: str) -> None:
        kind, name = desired["kind"], desired["metadata"]["name"]
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
        return live is not None and _foreign(resource, live) is None

    async def prune(self, resource: SLOServe, desired: list[Object], kinds: set[str]) -> list[Problem]:
        """Delete children of ours that are no longer desired. Returns: what could not be deleted."""
        wanted = {(obj["kind"], key_of(obj)) for obj in desired}
        problems = []
        for kind in sorted(kinds):
            for obj in self.cache.owned(kind, resource.key):
                ours = (controller_of(obj) or {}).get("uid") == resource.uid
                surplus = (kind, key_of(obj)) not in wanted
                if ours and surplus and not obj["metadata"].get("deletionTimestamp"):
                    problems.append(await self._delete(resource, obj))
        return [problem for problem in problems if problem]

    async def _delete(self, resource: SLOServe, obj: Object) -> Problem | None:
        kind, name, uid = obj["kind"], obj["metadata"]["name"], obj["metadata"]["uid"]
        child, attempt = (resource.uid, kind, name), ("delete", resource.generation, uid)
        if known := self.troubles.waits(child, attempt):
            return known
        try:
            await self.kube.delete(obj)
        except KubeError as error:
            self.telemetry.write(kind, "delete", str(error.status))
            return self.troubles.failed(child, attempt, error)
        self.troubles.over(child)
        self.telemetry.write(kind, "delete")
        log.info("deleted", kind=kind, child=name)
        return None

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self.contests.forget(uid)
        self.troubles.forget(uid)


def _comparable(desired: Object) -> Object:
    """Without what only the path of the request says; metadata last, so that a log names the real cause."""
    rest = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": desired["metadata"]}


def made_by_us(resource: SLOServe, live: Object) -> bool:
    """Whether an object without a controller bears all that we leave on a child of this resource: its labels,
    our hash, and our name among those that wrote its fields. Nobody gets these by accident."""
    meta = live["metadata"]
    labels = meta.get("labels") or {}
    return (
        controller_of(live) is None
        and labels.get(MANAGED_BY) == MANAGER
        and labels.get(NAME_LABEL) == resource.name
        and APPLIED_HASH in (meta.get("annotations") or {})
        and any(entry.get("manager") == MANAGER for entry in meta.get("managedFields") or [])
    )


def _foreign(resource: SLOServe, live: Object) -> Problem | None:
    """A problem if the live object is controlled by somebody else or by nobody."""
    owner = controller_of(live) or {}
    if owner.get("uid") == resource.uid:
        return None
    kind, name = live["kind"], live["metadata"]["name"]
    if owner.get("kind") == "SLOServe" and owner.get("name") == resource.name:
        text = f"{kind} {name} belongs to a deleted SLOServe of the same name and is about to be removed"
        return Problem(Reason.WAITING_FOR_CLEANUP, text)
    whose = f"is controlled by {owner['kind']} {owner['name']}" if owner else "was not made by this resource"
    text = f"{kind} {name} exists and {whose}; it is left untouched: delete it, or rename this SLOServe"
    return Problem(Reason.NAME_COLLISION, text)


def being_deleted(live: Object) -> Problem:
    """A child of ours that was deleted and is still there: who holds it."""
    meta = live["metadata"]
    held = ", ".join(meta.get("finalizers") or []) or "its deletion"
    text = (
        f"{live['kind']} {meta['name']} is being deleted since {meta['deletionTimestamp']} and held by"
        f" {held}: it stays as it is until that is done, and is then made anew"
    )
    return Problem(Reason.CHILD_DELETING, text)
