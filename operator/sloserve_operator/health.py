"""/livez, /readyz and /metrics. Started by `app`; the answers come from the queue and from `resync`.

Alive means progress, not an open port: no work waits or runs for minutes, LISTs succeed, and what they show
has come through the watches too. (kopf's own endpoint stays green when a watch dies.) Ready means: the
watches run, and with leader election the Lease can be read. So a standby that could take over is Ready; an
operator that waits for the CRD is alive and not Ready, because a restart would not bring it.
"""

import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .queue import KeyedQueue
from .resync import Resync
from .telemetry import Telemetry
from .watches import Watches

OLDEST_WORK_SECONDS = 300.0
STOP_SECONDS = 0.5  # for answers under way when the process ends


class Health:
    """Judges the process; a sentence is a fault, None is health."""

    def __init__(
        self,
        queue: KeyedQueue,
        resync: Resync,
        watches: Watches,
        resync_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        lease_fault: Callable[[], str | None] = lambda: None,
        remark: Callable[[], str] = lambda: "",
    ) -> None:
        self._queue = queue
        self._resync, self._watches = resync, watches
        self._limit = 5 * resync_seconds + 60
        self._clock = clock
        self._lease_fault = lease_fault
        self._remark = remark
        self._started = clock()

    def list_age(self) -> float:
        """Seconds since all kinds were last listed, or the CRD last found missing, or since the start."""
        return self._clock() - max(
            self._started, self._resync.last_success or 0.0, self._watches.answered or 0.0
        )

    def alive(self) -> str | None:
        """Why the process should be restarted, or None."""
        oldest = self._queue.oldest_seconds()
        if oldest > OLDEST_WORK_SECONDS:
            return f"work waits since {oldest:.0f} s"
        if (age := self.list_age()) > self._limit:
            return f"no complete LIST since {age:.0f} s"
        return self._resync.dead_watch

    def ready(self) -> str | None:
        """Why the process does not serve yet, or None."""
        return self._watches.fault or self._lease_fault() or self.alive()

    def figures(self) -> str:
        """What the verdict rests on, for a person who asks /livez."""
        oldest, age = self._queue.oldest_seconds(), self.list_age()
        lines = [f"oldest work: {oldest:.1f} s", f"last complete LIST: {age:.1f} s ago", self._remark()]
        return "".join(f"{line}\n" for line in lines if line)


def _verdict(health: Health, judge: Callable[[], str | None]) -> Callable[[web.Request], object]:
    async def answer(_: web.Request) -> web.Response:
        fault = judge()
        return web.Response(text=f"{fault or 'ok'}\n{health.figures()}", status=503 if fault else 200)

    return answer


async def serve(
    health: Health, telemetry: Telemetry, health_port: int, metrics_port: int
) -> list[web.AppRunner]:
    """Open both ports (0: none); the caller cleans the runners up."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(telemetry.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    probes, scraped = web.Application(), web.Application()
    probes.router.add_get("/livez", _verdict(health, health.alive))  # type: ignore[arg-type]
    probes.router.add_get("/readyz", _verdict(health, health.ready))  # type: ignore[arg-type]
    scraped.router.add_get("/metrics", metrics)
    runners = []
    for app, port in ((probes, health_port), (scraped, metrics_port)):
        if port:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
            await runner.setup()
            await web.TCPSite(runner, None, port).start()
            runners.append(runner)
    return runners
