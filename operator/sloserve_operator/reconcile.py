"""One level-triggered pass over one resource: desired, children, observe, nudge, status, events.

Called by the workers with a key from `queue`. It reads from `cache`, writes through `kube`, and may be killed
between any two steps: everything it needs is read anew from what exists.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from .api import KIND
from .api.conditions import Reason
from .api.engine import EngineState
from .api.resource import InvalidSpecError, Object, SLOServe
from .attainment import Window
from .cache import Cache, Key, key_of
from .children import Again, Children
from .desired import Context, build
from .desired.pod import FIXED
from .desired.policies import operator_peer
from .desired.workload import endpoint
from .engine_metrics import EngineReader
from .events import transitions
from .figures import settled
from .hold import held
from .kube import Kube, KubeError
from .nudge import Nudges
from .observe import children, observe
from .status import Problem, Subject, compute, same
from .telemetry import Telemetry
from .view import Observed

# Not the claim: it holds data, which nobody loses by editing a spec. It goes with the resource.
PRUNED = {"ServiceAccount", "ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment"}
# Foreign objects bear none of our labels, so no watch tells when they go.
BLOCKED_SECONDS = {
    Reason.WAITING_FOR_CLEANUP: 2.0,
    Reason.NAME_COLLISION: 10.0,
    Reason.FORBIDDEN: 30.0,
    Reason.QUOTA_EXCEEDED: 30.0,
}
FIGURES_SECONDS = 60.0
"""Between two writes of a status in which figures alone have moved."""
SCHEDULER_SECONDS = 20.0
"""After a pod's end: the scheduler tries a pod that found no place again after up to 10 s."""
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
        operator: Object | None = None,
        run_as: str = FIXED,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._cache, self._engines, self._telemetry = kube, cache, engines, telemetry
        self._images, self._poll, self._instance = images, poll_seconds, instance
        self._operator, self._run_as = operator or operator_peer(), run_as
        self._clock, self._wall = clock, wall
        # A start is no news: windows begin anew with it, and what they say is worth no write at once.
        self._started = clock()
        self._children = Children(kube, cache, telemetry, clock)
        self._nudges: dict[Key, Nudges] = {}
        self._heard: dict[Key, dict[str, EngineState]] = {}
        self._windows: dict[Key, Window] = {}
        self._written: dict[Key, float] = {}
        self._untaken: dict[Key, set[str]] = {}
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
                await self._report(obj, _unreadable(obj), observed, problem)
                return None
            return await self._pass(obj, resource)

    async def _pass(self, obj: Object, resource: SLOServe) -> float | None:
        problems = await self._write_children(resource)
        problem = next((found for found in problems if not found.passing), None)
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
        await self._report(obj, subject, observed, problem)
        known = self._cache.get(KIND, resource.key)
        if known and known["metadata"].get("generation", 1) != resource.generation:
            # The answer to our status told of a newer spec, and its own event now counts as old.
            return 0.0
        due = [
            self._nudges[resource.key].next_look(observed.pods, self._clock()),
            self._children.attempts.next_try(resource.uid),
            BLOCKED_SECONDS.get(problem.reason) if problem else None,
            self._poll,
        ]
        return min(seconds for seconds in due if seconds is not None)

    def _remembered(self, key: Key, observed: Observed) -> Observed:
        """With what earlier passes saw."""
        now = self._clock()
        if observed.draining:
            self._drained[key] = now
        freed = now - self._drained.get(key, float("-inf")) < SCHEDULER_SECONDS
        recent = self._windows.setdefault(key, Window()).recent(observed.pods, now)
        return replace(observed, freed=freed, recent=recent)

    async def _write_children(self, resource: SLOServe) -> list[Problem]:
        """All children in order. Returns: what stands in the way of those that cannot be had.

        The others are still kept in shape: a number of replicas does not hang on a Service that the server
        refuses, and engines do not wait for a budget. But no Deployment is made or changed to pods that would
        wait for something that is not there, or would use what was to be another by the same spec.
        """
        for _ in range(MOST_RESTARTS):
            deployment, config_map = children(self._cache, resource)
            images = (self._images.engine, self._images.engine_cpu)
            context = Context(*images, deployment, config_map, self._operator, self._run_as)
            desired = build(resource, context)
            problems: dict[str, Problem] = {}
            try:
                for child in desired:
                    if child["kind"] == "Deployment" and held(
                        self._children, self._cache, resource, desired, problems
                    ):
                        continue
                    if problem := await self._children.ensure(resource, child):
                        problems.setdefault(child["kind"], problem)
                    if sum(found.unanswered for found in problems.values()) > 1:
                        break  # it is the server, and each further child would cost a whole deadline
                await self._children.prune(resource, desired, PRUNED)
            except Again:
                continue
            return list(problems.values())
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
        old, key = obj.get("status") or {}, key_of(obj)
        if same(status, old):
            return
        just_now = self._clock() - self._written.get(key, self._started) < FIGURES_SECONDS
        untaken = self._untaken.get(key, set())
        news = {name: value for name, value in settled(status).items() if name not in untaken}
        if just_now and same(news, settled(old)):
            return  # a later look writes the figures, and tries again what an older CRD did not take
        try:
            answer = await self._kube.apply_status(obj["metadata"], status)
        except KubeError as error:
            if error.status == 404 or (error.status in (409, 422) and "uid" in error.message):
                return  # deleted meanwhile; the watch will say so
            self._telemetry.write(KIND, "status", str(error.status))
            raise
        self._telemetry.write(KIND, "status")
        self._written[key] = self._clock()
        self._untaken[key] = status.keys() - (answer.get("status") or {}).keys()
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
                if error.status != 409:  # else it was posted before
                    log.warning("event not posted", reason=event["reason"], error=error.message)

    def _forget(self, key: Key) -> None:
        memories = (
            self._nudges, self._heard, self._windows, self._written, self._untaken, self._drained
        )  # fmt: skip
        for memory in memories:
            memory.pop(key, None)
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
