"""Leader election by a Lease: of several operators one writes. Run by `app`; `kube` asks it before a write.

Nobody's wall clock is trusted. A standby takes over when it has seen no change of the record for the record's
duration, measured on its own clock from when it saw the last one. The leader counts from *before* it sent the
renewal that succeeded, stops writing after two thirds of the duration and ends the process. So its last
write is a third of the duration before anyone else's first, whatever became of the connection, the process
(SIGSTOP, a blocked loop) or the clocks, as long as two clocks do not run at rates that differ by half.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import structlog

from .api.resource import Object
from .kube import Kube, KubeError
from .telemetry import Telemetry

DEADLINE_SHARE = 2 / 3  # of the duration: a leader that has not renewed for so long stops writing
CALL_SHARE = 1 / 4  # deadline of one call: a hung one leaves time for a second on a new connection
PAUSE_SHARE = 2 / 15  # between two looks at the record
log = structlog.stdlib.get_logger("sloserve.lease")


class LostError(RuntimeError):
    """This process may no longer write; it ends, and starts anew as a standby."""


def elapsed() -> float:
    """Seconds that only grow, and on Linux go on while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Election:
    """One candidate. `held` is set when it becomes the leader, and never cleared: losing ends the process."""

    def __init__(
        self,
        kube: Kube,
        telemetry: Telemetry,
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: int,
        clock: Callable[[], float] = elapsed,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._telemetry = kube, telemetry
        self._namespace, self._name, self._identity = namespace, name, identity
        self._seconds, self._clock, self._wall = seconds, clock, wall
        self._record: Object | None = None  # as last read or written
        self._seen: tuple[Object, float] | None = None  # another's record, and when it was first seen so
        self._renewed: float | None = None  # when the last renewal that succeeded was sent
        self._contact: float | None = None  # when the record was last read or written
        self._told_of_long = False
        self._stamp = datetime.min.replace(tzinfo=UTC)
        self.held = asyncio.Event()
        telemetry.leader.set(0)

    @property
    def pause(self) -> float:
        """Seconds between two looks at the record."""
        return self._seconds * PAUSE_SHARE

    def time_left(self) -> float:
        """Seconds for which this process may still write; 0 or less: not at all."""
        if self._renewed is None:
            return 0.0
        return self._renewed + self._seconds * DEADLINE_SHARE - self._clock()

    def fault(self) -> str | None:
        """Why this candidate cannot take part, for /readyz; a standby that sees the leader can."""
        if self._contact is not None and self._clock() - self._contact <= 2 * self._seconds:
            return None
        return f"the Lease {self._namespace}/{self._name} cannot be read or written: see the log"

    async def run(self, lead: Callable[[], None]) -> NoReturn:
        """Stand by until the Lease is ours, set `held`, call `lead`, then renew for ever.

        Raises:
            LostError: the Lease is another's, or was not renewed in time.
        """
        while not await self._attempt():  # noqa: ASYNC110 - what is waited for is on the API server
            await asyncio.sleep(self.pause)
        log.info("leading", lease=f"{self._namespace}/{self._name}", identity=self._identity)
        self._telemetry.leader.set(1)
        self.held.set()
        lead()
        try:
            while True:
                await asyncio.sleep(max(0.0, min(self.pause, self.time_left())))
                if self.time_left() > 0:
                    await self._attempt()
                if self.time_left() <= 0:
                    late = f"the Lease was not renewed for {self._seconds * DEADLINE_SHARE:.3g} s"
                    raise LostError(f"{late}: nothing is written any more, and a standby can take over")
        finally:
            self._telemetry.leader.set(0)

    async def release(self) -> None:
        """Give the Lease up, so that a standby need not wait. Call it when nothing is in work any more."""
        if self.time_left() <= 0:
            return
        self._renewed = None  # from here on this process writes nothing, whatever the answer is
        try:
            record = await self._read()
            held = (record or {}).get("spec") or {}
            if record is None or held.get("holderIdentity") != self._identity:
                return
            spec = {**held, "holderIdentity": "", "renewTime": self._now()}
            await self._kube.replace({**record, "spec": spec}, self._seconds * CALL_SHARE)
        except KubeError as error:
            log.warning("the Lease was not given up; a standby waits for its end", error=error.message)
        else:
            log.info("gave the Lease up")

    async def _read(self) -> Object | None:
        return await self._kube.get("Lease", self._namespace, self._name, self._call_seconds)

    @property
    def _call_seconds(self) -> float:
        """Deadline of a call: a part of the duration, and for a leader never past its own end."""
        share = self._seconds * CALL_SHARE
        return min(share, left) if (left := self.time_left()) > 0 else share

    async def _attempt(self) -> bool:
        """One try to take or renew; True if it succeeded. A call that fails leaves all as it was."""
        try:
            mine = await self._try()
        except KubeError as error:
            self._record = None  # whether a write without an answer took place, only a read can tell
            self._telemetry.lease_calls.labels("conflict" if error.status == 409 else "error").inc()
            if error.status != 409:
                log.warning("the Lease could not be had", error=str(error), leading=self.held.is_set())
            return False
        self._telemetry.lease_calls.labels("renewed" if mine else "standby").inc()
        return mine

    async def _try(self) -> bool:
        sent = self._clock()
        record = self._record if self.time_left() > 0 else None
        record = record or await self._read()
        if record is None:
            meta = {"namespace": self._namespace, "name": self._name}
            body: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
            self._won(await self._kube.create({**body, "spec": self._ours({})}, self._call_seconds), sent)
            return True
        self._contact = self._clock()
        spec = record.get("spec") or {}
        if self.held.is_set() and spec.get("holderIdentity") != self._identity:
            self._renewed = None
            raise LostError(f"the Lease is held by {spec.get('holderIdentity') or 'nobody'}")
        if not self._free(spec):
            return False
        self._won(await self._kube.replace({**record, "spec": self._ours(spec)}, self._call_seconds), sent)
        return True

    def _free(self, spec: Object) -> bool:
        """Whether the record allows us to take it: ours, given up, or unchanged for its whole duration."""
        if spec.get("holderIdentity") in (None, "", self._identity):
            return True
        now = self._clock()
        if self._seen is None or self._seen[0] != spec:
            if self._seen is None or self._seen[0].get("holderIdentity") != spec["holderIdentity"]:
                log.info("standing by", leader=spec["holderIdentity"])
            self._seen, self._told_of_long = (spec, now), False
        left = self._seen[1] + self._duration(spec) - now
        if (text := self.remark()) and not self._told_of_long:
            self._told_of_long = True
            log.warning("the Lease is held for long", error=text, free_in=round(left, 1))
        return left <= 0

    def _duration(self, spec: Object) -> float:
        """Seconds for which a record stands. The longer of the two: the other may have been started with
        another setting, and may write for two thirds of it."""
        return max(self._seconds, spec.get("leaseDurationSeconds") or 0)

    def remark(self) -> str:
        """A sentence if the holder, who may be dead, gave no sign of life for our own duration, and has a
        longer one; else empty. For /readyz and the log: only a person can know that it is dead."""
        if self._seen is None or self.time_left() > 0:
            return ""
        spec, since = self._seen
        waited, whole = self._clock() - since, self._duration(spec)
        if not self._seconds <= waited < whole:
            return ""
        return (
            f"nobody leads, it seems: the Lease {self._namespace}/{self._name} is held by"
            f" {spec['holderIdentity']}, silent for {waited:.0f} s, and its leaseDurationSeconds is"
            f" {whole:.0f}; it is taken in {whole - waited:.0f} s. If that process is gone:"
            f" kubectl -n {self._namespace} delete lease {self._name}"
        )

    def _ours(self, spec: Object) -> Object:
        stamp = self._now()
        changes: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._seconds,
            "renewTime": stamp,
        }
        if spec.get("holderIdentity") != self._identity:
            changes |= {"acquireTime": stamp, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}
        return {**spec, **changes}

    def _now(self) -> str:
        """The wall clock, for people; it always grows, because a renewal must change the record."""
        self._stamp = max(self._wall(), self._stamp + timedelta(microseconds=1))
        return self._stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _won(self, record: Object, sent: float) -> None:
        self._record, self._renewed, self._contact = record, sent, self._clock()
