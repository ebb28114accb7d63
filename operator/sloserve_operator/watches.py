"""From nothing to watching, and back there whenever the watches end: CRD, first LIST, kopf. Run by `app`.

Without the CRD, or without an API server that takes our calls, the operator waits: not Ready, and one log
line says for what. A restart would not help. Watches that end again and again while LISTs succeed are a
fault of our own, and end the process.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from . import backoff
from .api import CRD
from .kube import Kube, KubeError
from .resync import Resync

POLL_SECONDS = 2.0
SHORT_SECONDS = 60.0  # watches that end sooner count as a failure
MOST_SHORT = 8
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 30.0
NO_CRD = f"the CRD {CRD} is not installed: install the chart with crds.enabled=true or apply crds/"
log = structlog.stdlib.get_logger("sloserve.watch")


class WatchError(RuntimeError):
    """The watches end at once whenever they are begun."""


class Watches:
    """`inform` watches until it fails; `active` is set while it does, `fault` says why it does not."""

    def __init__(
        self,
        kube: Kube,
        resync: Resync,
        inform: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._kube, self._resync, self._inform = kube, resync, inform
        self._clock, self._poll = clock, poll_seconds
        self.active = asyncio.Event()
        self.fault: str | None = "the first LIST is not complete"
        self.answered: float | None = None  # when the server last said that it does not know the CRD

    async def run(self) -> NoReturn:
        """Watch for ever.

        Raises:
            WatchError: it cannot be done, though the API server answers.
        """
        short = 0
        while True:
            await self._reach()
            log.info("watching")
            began = self._clock()
            self.active.set()
            try:
                if await self._changed():
                    log.info("watching other namespaces")
                    continue
            except Exception as error:
                self.fault = f"the watches ended: {error!r}"
            finally:
                self.active.clear()
            short = short + 1 if self._clock() - began < SHORT_SECONDS else 1
            if short > MOST_SHORT:
                raise WatchError(f"{self.fault}, {short} times in a row")
            log.warning("the watches ended and are begun anew", error=self.fault)
            await asyncio.sleep(backoff.pause(short - 1, FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS))

    async def _changed(self) -> bool:
        """Watch until other namespaces are to be watched: True. Else it ended by itself."""
        informing = asyncio.ensure_future(self._inform())
        changed = asyncio.ensure_future(self._resync.changed.wait())
        try:
            await asyncio.wait((informing, changed), return_when=asyncio.FIRST_COMPLETED)
            if informing.done():
                informing.result()
            return not informing.done()
        finally:
            for task in (informing, changed):
                task.cancel()
            await asyncio.gather(informing, changed, return_exceptions=True)

    async def _served(self) -> bool:
        """Whether the server knows our kind, as far as one namespace may be asked."""
        refused: KubeError | None = None
        for namespace in self._resync.namespaces:
            try:
                return await self._kube.served(namespace)
            except KubeError as error:
                if error.status != 403:
                    raise
                refused = refused or error
        raise refused or KubeError("look", 0, "no namespace")

    async def _reach(self) -> None:
        """Return once the server serves our kind and everything was listed."""
        told: str | None = None
        while True:
            pause = self._poll
            try:
                if await self._served():
                    await self._resync.prime()
                    self.fault = None
                    return
                self.answered, self.fault = self._clock(), NO_CRD
            except KubeError as error:
                self.fault, pause = str(error), max(pause, error.retry_after)
            if self.fault != told:
                log.warning("waiting", error=self.fault)
                told = self.fault
            await asyncio.sleep(pause)
