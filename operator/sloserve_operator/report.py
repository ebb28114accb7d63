"""Last step of a pass: the status if it says something new, then the events. Called by `reconcile`."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from .api import KIND
from .api.resource import Object
from .cache import Cache, Key, key_of
from .events import transitions
from .figures import settled
from .kube import Kube, KubeError
from .status import Problem, Subject, compute, same
from .telemetry import Telemetry
from .view import Observed

FIGURES_SECONDS = 60.0
"""Between two writes of a status in which figures alone have moved."""
log = structlog.stdlib.get_logger("sloserve.reconcile")


class Reporter:
    """Remembers when each status was written, and which fields an older CRD did not take."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        telemetry: Telemetry,
        instance: str,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._cache, self._telemetry, self._instance = kube, cache, telemetry, instance
        self._clock, self._wall = clock, wall
        # A start is no news: windows begin anew with it, and what they say is worth no write at once.
        self._started = clock()
        self._written: dict[Key, float] = {}
        self._untaken: dict[Key, set[str]] = {}

    async def report(
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
            log.info("condition", condition=event["action"], reason=event["reason"], message=event["message"])
            try:
                await self._kube.event(event)
            except KubeError as error:
                if error.status != 409:  # else it was posted before
                    log.warning("event not posted", reason=event["reason"], error=error.message)

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._written.pop(key, None)
        self._untaken.pop(key, None)
