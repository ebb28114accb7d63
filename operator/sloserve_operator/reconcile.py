"""One level-triggered pass over one resource: observe, desired, children, nudge, status, events.

Called by the workers with a key from `queue`. It reads from `cache`, writes through `kube`, and may be killed
between any two steps: everything it needs is read anew from what exists.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from .api import KIND
from .api.conditions import Reason
from .api.resource import InvalidSpecError, Object, SLOServe
from .cache import Cache, Key
from .children import Again, Children
from .desired import Context, build
from .desired.workload import endpoint
from .engine_metrics import EngineReader
from .events import transitions
from .kinds import CHILDREN
from .kube import Kube, KubeError
from .nudge import Nudges
from .observe import children, observe
from .status import Problem, Subject, compute, same
from .telemetry import Telemetry
from .view import Observed

CHILD_KINDS = {kind.kind for kind in CHILDREN}
# Foreign objects bear none of our labels, so no watch tells when they go.
BLOCKED_SECONDS = {Reason.WAITING_FOR_CLEANUP: 2.0, Reason.NAME_COLLISION: 10.0, Reason.FORBIDDEN: 30.0}
MOST_RESTARTS = 5
log = structlog.stdlib.get_logger("sloserve.reconcile")


@dataclass(frozen=True)
class Images:
    """Default engine images."""

    engine: str
    engine_cpu: str


class Reconciler:
    """Holds the ports (API server, engines) and what is remembered between passes, which is never needed."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        engines: EngineReader,
        telemetry: Telemetry,
        images: Images,
        *,
        poll_seconds: float,
        instance: str = "sloserve-operator",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._cache, self._engines, self._telemetry = kube, cache, engines, telemetry
        self._images, self._poll, self._instance = images, poll_seconds, instance
        self._clock, self._wall = clock, wall
        self._children = Children(kube, cache, telemetry)
        self._nudges: dict[Key, Nudges] = {}
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> float | None:
        """One pass. Returns: seconds until the next look is due without an event; None if none is.

        Raises:
            KubeError: the API server did not do as asked; the pass is to be tried again.
        """
        obj = self._cache.get(KIND, key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            self._forget(key)
            return None
        self._uids[key] = obj["metadata"]["uid"]
        with structlog.contextvars.bound_contextvars(
            namespace=key[0], sloserve=key[1], generation=obj["metadata"].get("generation")
        ):
            try:
                resource = SLOServe.parse(obj)
            except InvalidSpecError as error:
                problem = Problem(Reason.INVALID_SPEC, str(error))
                await self._report(obj, _unreadable(obj), Observed(None, ()), problem)
                return None
            return await self._pass(obj, resource)

    async def _pass(self, obj: Object, resource: SLOServe) -> float | None:
        problem = await self._write_children(resource)
        observed = await observe(self._cache, self._engines, resource)
        await self._nudge(resource, observed)
        subject = Subject(
            resource.name, resource.generation, resource.spec.replicas, endpoint(resource), resource.status
        )
        await self._report(obj, subject, observed, problem)
        known = self._cache.get(KIND, resource.key)
        if known and known["metadata"].get("generation", 1) != resource.generation:
            # The answer to our status told of a newer spec, and its own event now counts as old.
            return 0.0
        soon = self._nudges[resource.key].next_look(observed.pods, self._clock())
        if soon is not None:
            return soon
        return BLOCKED_SECONDS.get(problem.reason) if problem else self._poll

    async def _write_children(self, resource: SLOServe) -> Problem | None:
        """All children in order, up to the first that cannot be had."""
        for _ in range(MOST_RESTARTS):
            deployment, config_map = children(self._cache, resource)
            context = Context(self._images.engine, self._images.engine_cpu, deployment, config_map)
            desired = build(resource, context)
            try:
                for child in desired:
                    if problem := await self._children.ensure(resource, child):
                        return problem
                await self._children.prune(resource, desired, CHILD_KINDS)
            except Again:
                continue
            return None
        raise KubeError("write children", 409, "the children change faster than they can be read")

    async def _nudge(self, resource: SLOServe, observed: Observed) -> None:
        """Ask the kubelet for a refresh wherever an engine still runs older settings."""
        nudges = self._nudges.setdefault(resource.key, Nudges())
        nudges.keep({pod.uid for pod in observed.pods})
        if observed.config is None:
            return
        for pod, value in nudges.due(observed.pods, observed.config, self._clock()):
            try:
                await self._kube.nudge(resource.namespace, pod.name, value)
            except KubeError as error:
                # The next nudge follows by its own back-off; a pod that is gone needs none.
                log.warning("nudge failed", pod=pod.name, error=error.message)
                continue
            self._telemetry.nudges.inc()
            log.info("nudged", pod=pod.name, config=value)

    async def _report(
        self, obj: Object, subject: Subject, observed: Observed, problem: Problem | None
    ) -> None:
        """Write the status if it says something new, then post what changed."""
        now = self._wall()
        status = compute(subject, observed, problem, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._telemetry.show(obj["metadata"]["namespace"], subject.name, subject.replicas, status)
        old = obj.get("status") or {}
        if same(status, old):
            return
        try:
            answer = await self._kube.apply_status(obj["metadata"], status)
        except KubeError as error:
            if error.status == 404 or (error.status in (409, 422) and "uid" in error.message):
                return  # deleted meanwhile; the watch will say so
            self._telemetry.write(KIND, "status", str(error.status))
            raise
        self._telemetry.write(KIND, "status")
        self._cache.put(KIND, answer)
        ready = next(c for c in status["conditions"] if c["type"] == "Ready")
        log.info("status", ready=ready["status"], reason=ready["reason"], pods=status["readyReplicas"])
        for event in transitions(
            obj,
            old.get("conditions") or [],
            status["conditions"],
            now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            self._instance,
        ):
            log.info("condition", condition=event["action"], reason=event["reason"], message=event["note"])
            try:
                await self._kube.event(event)
            except KubeError as error:
                log.warning("event not posted", reason=event["reason"], error=error.message)

    def _forget(self, key: Key) -> None:
        self._nudges.pop(key, None)
        if uid := self._uids.pop(key, None):
            self._children.forget(uid)
            self._telemetry.forget(*key)
            log.info("gone", namespace=key[0], sloserve=key[1])


def _unreadable(obj: Object) -> Subject:
    meta = obj["metadata"]
    return Subject(meta["name"], meta.get("generation", 1), 0, "", obj.get("status") or {})
