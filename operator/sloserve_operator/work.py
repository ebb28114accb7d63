"""The workers: take a key from the queue, reconcile it, say how it went. Started by `app`.

A standby's workers take keys too and drop them, so that its queue is as short as a leader's; when it becomes
the leader it looks at every resource.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from .kube import KubeError
from .queue import KeyedQueue
from .reconcile import Reconciler
from .resync import Resync
from .telemetry import Telemetry

STOP_SECONDS = 10.0
log = structlog.stdlib.get_logger("sloserve.work")


async def work(
    queue: KeyedQueue, reconciler: Reconciler, telemetry: Telemetry, leads: Callable[[], bool]
) -> None:
    """One worker, for ever. `leads`: whether this process writes, asked before each look."""
    while True:
        key = await queue.get()
        if not leads():
            queue.done(key)
            continue
        started = time.monotonic()
        try:
            again = await reconciler.reconcile(key)
        except KubeError as error:
            pause = queue.failed(key, error.retry_after)
            telemetry.reconciles.labels("retry").inc()
            log.warning(
                "reconcile failed",
                namespace=key[0],
                sloserve=key[1],
                error=str(error),
                again_in=round(pause, 1),
            )
        except Exception:
            pause = queue.failed(key)
            telemetry.reconciles.labels("error").inc()
            log.exception("reconcile broke", namespace=key[0], sloserve=key[1], again_in=round(pause, 1))
        else:
            queue.done(key, again)
            telemetry.reconciles.labels("ok").inc()
        finally:
            telemetry.seconds.observe(time.monotonic() - started)


async def keep_checking(resync: Resync, watching: asyncio.Event, seconds: float) -> None:
    """LIST every `seconds` while the watches run; a failure is logged and shows in /livez if it lasts."""
    while True:
        await asyncio.sleep(seconds)
        await watching.wait()
        try:
            await resync.check()
        except KubeError as error:
            log.warning("LIST failed", error=str(error))
            await asyncio.sleep(error.retry_after)


async def drain(queue: KeyedQueue) -> bool:
    """Let looks under way come to their end. Returns: whether they did."""
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await queue.rest()
    except TimeoutError:
        log.warning("stopping with a reconcile in work; the next start takes it up")
        return False
    return True
