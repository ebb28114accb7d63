"""One level-triggered pass over one resource: apply the children, observe, nudge, report status and events.

Called by the workers with a key from `queue`. It reads from `cache`, writes through `kube`, and may be killed
between any two steps: everything it needs is read anew from what exists.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from .api import KIND
from .api.conditions import Reason
from .api.engine import EngineState
from .api.resource import InvalidSpecError, Object, SLOServe
from .apply import Applier, Images
from .attainment import Window
from .cache import Cache, Key
from .children import Children
from .desired.pod import FIXED
from .desired.policies import operator_peer
from .desired.workload import endpoint
from .engine_metrics import EngineReader
from .kube import Kube, KubeError
from .nudge import Nudges
from .observe import observe
from .report import Reporter
from .status import Problem, Subject
from .telemetry import Telemetry
from .view import Observed

# Foreign objects bear none of our labels, so no watch tells when they go.
BLOCKED_SECONDS = {
    Reason.WAITING_FOR_CLEANUP: 2.0,
    Reason.NAME_COLLISION: 10.0,
    Reason.FORBIDDEN: 30.0,
    Reason.QUOTA_EXCEEDED: 30.0,
}
SCHEDULER_SECONDS = 20.0
"""After a pod's end: the scheduler tries a pod that found no place again after up to 10 s."""
log = structlog.stdlib.get_logger("sloserve.reconcile")


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
        operator: Object | None = None,
        unseen: Callable[[str, str], str] = lambda _namespace, _kind: "",
        run_as: str = FIXED,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._cache, self._engines, self._telemetry = kube, cache, engines, telemetry
        self._poll, self._clock = poll_seconds, clock
        self._children = Children(kube, cache, telemetry, clock)
        self._applier = Applier(cache, self._children, images, operator or operator_peer(), unseen, run_as)
        self._reporter = Reporter(kube, cache, telemetry, instance, clock, wall)
        self._nudges: dict[Key, Nudges] = {}
        self._heard: dict[Key, dict[str, EngineState]] = {}
        self._windows: dict[Key, Window] = {}
        self._drained: dict[Key, float] = {}
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
        if self._uids.get(key) not in (None, obj["metadata"]["uid"]):
            self._forget(key)  # deleted and made anew between two looks
        self._uids[key] = obj["metadata"]["uid"]
        with structlog.contextvars.bound_contextvars(
            namespace=key[0], sloserve=key[1], generation=obj["metadata"].get("generation")
        ):
            try:
                resource = SLOServe.parse(obj)
            except InvalidSpecError as error:
                problem = Problem(Reason.INVALID_SPEC, str(error))
                observed = Observed(self._cache.get("Deployment", key), ())
                await self._reporter.report(obj, _unreadable(obj), observed, problem)
                return None
            return await self._pass(obj, resource)

    async def _pass(self, obj: Object, resource: SLOServe) -> float | None:
        problem = await self._applier.apply(resource)
        observed = await observe(
            self._cache, self._engines, resource, self._heard.setdefault(resource.key, {})
        )
        await self._nudge(resource, observed)
        observed = self._remembered(resource.key, observed)
        subject = Subject(
            resource.name,
            resource.generation,
            resource.spec.replicas,
            endpoint(resource),
            resource.status,
            resource.spec.slo_classes,
        )
        retry = self._children.troubles.next_try(resource.uid)
        if problem and problem.passing:
            return 0.0 if retry is None else retry  # a hiccup; a second one in a row is told
        await self._reporter.report(obj, subject, observed, problem)
        known = self._cache.get(KIND, resource.key)
        if known and known["metadata"].get("generation", 1) != resource.generation:
            # The answer to our status told of a newer spec, and its own event now counts as old.
            return 0.0
        soon = self._nudges[resource.key].next_look(observed.pods, self._clock())
        due = BLOCKED_SECONDS.get(problem.reason, self._poll) if problem else self._poll
        return min(seconds for seconds in (soon, retry, due) if seconds is not None)

    def _remembered(self, key: Key, observed: Observed) -> Observed:
        """With what earlier passes saw."""
        now = self._clock()
        if observed.draining:
            self._drained[key] = now
        freed = now - self._drained.get(key, float("-inf")) < SCHEDULER_SECONDS
        window = self._windows.setdefault(key, Window())
        recent, idle = window.recent(observed.pods, now), window.idle(observed.pods, now)
        return replace(observed, freed=freed, recent=recent, idle=idle)

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

    def _forget(self, key: Key) -> None:
        memories = (self._nudges, self._heard, self._windows, self._drained)
        for memory in memories:
            memory.pop(key, None)
        self._reporter.forget(key)
        if uid := self._uids.pop(key, None):
            self._children.forget(uid)
            self._telemetry.forget(*key)
            log.info("gone", namespace=key[0], sloserve=key[1])


def _unreadable(obj: Object) -> Subject:
    """Of a spec that does not fit: its engines serve on."""
    meta, status = obj["metadata"], obj.get("status") or {}
    replicas = (obj.get("spec") or {}).get("replicas")
    wanted = replicas if isinstance(replicas, int) else 0
    return Subject(meta["name"], meta.get("generation", 1), wanted, status.get("endpoint", ""), status)
