"""The process: settings, ports, workers, kopf, and an exit status that means something. `sloserve-operator`.

Ends 0 only after SIGTERM or SIGINT. If kopf's tasks end for any other reason, or the CRD does not appear, the
process ends non-zero and the kubelet starts it anew.
"""

import asyncio
import signal
import socket
import sys
import time
from contextlib import AsyncExitStack

import kopf
import structlog
from aiohttp import ClientError
from kubernetes.aio.client.rest import ApiException
from kubernetes.aio.config import ConfigException
from pydantic import ValidationError
from pydantic_settings import CliApp

from . import __version__
from .api import GROUP, KIND, PLURAL
from .cache import Cache
from .engine_metrics import EngineClient
from .handlers import register
from .handlers import settings as kopf_settings
from .health import Health, serve
from .kube import Kube, KubeError
from .queue import KeyedQueue
from .reconcile import Images, Reconciler
from .resync import Resync
from .settings import Settings
from .telemetry import Telemetry, configure_logging

STOP_SECONDS = 10.0
CRD_POLL_SECONDS = 2.0
log = structlog.stdlib.get_logger("sloserve.app")


class StartError(RuntimeError):
    """The operator cannot start; the text says what to do."""


async def wait_for_crd(kube: Kube, seconds: float) -> None:
    """Return once the server knows our kind.

    Raises:
        StartError: after `seconds`.
    """
    deadline = time.monotonic() + seconds
    text = (
        f"the CRD {PLURAL}.{GROUP} is not installed: install the chart with crds.enabled=true or apply crds/"
    )
    while not await kube.served(KIND):
        if time.monotonic() > deadline:
            raise StartError(text)
        log.warning("waiting for the CRD", remedy=text)
        await asyncio.sleep(CRD_POLL_SECONDS)


async def work(queue: KeyedQueue, reconciler: Reconciler, telemetry: Telemetry) -> None:
    """One worker: take a key, reconcile it, say how it went; for ever."""
    while True:
        key = await queue.get()
        telemetry.queue_depth.set(len(queue))
        started = time.monotonic()
        try:
            again = await reconciler.reconcile(key)
        except KubeError as error:
            pause = queue.failed(key)
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


async def keep_checking(resync: Resync, queue: KeyedQueue, telemetry: Telemetry, seconds: float) -> None:
    """LIST every `seconds`; a failure is logged and shows in /livez if it lasts."""
    while True:
        await asyncio.sleep(seconds)
        telemetry.queue_oldest.set(queue.oldest_seconds())
        try:
            await resync.check()
        except KubeError as error:
            log.warning("LIST failed", error=str(error))


async def drain(queue: KeyedQueue) -> None:
    """Let reconciles in work come to their end."""
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await queue.rest()
    except TimeoutError:
        log.warning("stopping with a reconcile in work; the next start takes it up")


async def run(settings: Settings) -> int:
    """Run until told to stop. Returns: the exit status."""
    told, end_watches = asyncio.Event(), asyncio.Event()
    _take_signals(told)
    async with AsyncExitStack() as stack:
        telemetry, cache, queue = Telemetry(), Cache(), KeyedQueue()
        kube, engines = Kube(settings.call_timeout_seconds), EngineClient(settings.engine_timeout_seconds)
        stack.push_async_callback(kube.close)
        stack.push_async_callback(engines.close)
        resync = Resync(kube, cache, queue, telemetry, settings.watched())
        health = Health(queue, resync, settings.resync_seconds)
        try:
            runners = await serve(health, telemetry, settings.health_port, settings.metrics_port)
        except OSError as error:
            log.error(
                "cannot start", error=f"{error.strerror or error}: choose other health or metrics ports"
            )
            return 1
        for runner in runners:
            stack.push_async_callback(runner.cleanup)
        log.info("starting", version=__version__, namespaces=settings.namespaces or "all")
        reconciler = Reconciler(
            kube,
            cache,
            engines,
            telemetry,
            Images(settings.engine_image, settings.engine_image_cpu),
            poll_seconds=settings.poll_seconds,
            instance=socket.gethostname(),
        )
        registry = kopf.OperatorRegistry()
        register(registry, cache, queue, telemetry, settings.kubeconfig)
        watching = asyncio.create_task(_watch(settings, kube, resync, registry, told, end_watches))
        background = [
            asyncio.create_task(work(queue, reconciler, telemetry)) for _ in range(settings.workers)
        ]
        background.append(
            asyncio.create_task(keep_checking(resync, queue, telemetry, settings.resync_seconds))
        )
        stopping = asyncio.create_task(told.wait())
        await asyncio.wait([watching, stopping, *background], return_when=asyncio.FIRST_COMPLETED)
        if clean := told.is_set():
            log.info("stopping")
            await drain(queue)
        for task in (*background, stopping):
            task.cancel()
        end_watches.set()
        results = await asyncio.gather(watching, *background, return_exceptions=True)
        faults = [result for result in results if isinstance(result, Exception)]
        for fault in faults:
            expected = isinstance(fault, StartError)
            log.error("ended", error=str(fault) or repr(fault), exc_info=None if expected else fault)
        return 0 if clean and not faults else 1


def _take_signals(told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)


async def _watch(
    settings: Settings,
    kube: Kube,
    resync: Resync,
    registry: kopf.OperatorRegistry,
    told: asyncio.Event,
    end_watches: asyncio.Event,
) -> None:
    """Connect, wait for the CRD, fill the cache, watch until `end_watches`; an earlier end is a fault."""
    try:
        await kube.connect(settings.kubeconfig)
        await wait_for_crd(kube, settings.crd_timeout_seconds)
        await resync.prime()
    except ApiException as error:
        # Discovery is not one of our calls: a 401 or 403 of its own comes as it is.
        raise StartError(f"cannot start: the API server answered {error.status} {error.reason}") from error
    except (KubeError, OSError, ConfigException, ClientError) as error:
        raise StartError(f"cannot start: {error}") from error
    log.info("watching")
    namespaces = settings.watched()
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=kopf_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=end_watches,
    )
    # kopf's own signal handlers would end the watches before the work in hand.
    _take_signals(told)
    await kopf.run_tasks(tasks, ignored=others)
    if not end_watches.is_set():
        raise StartError("the watches ended by themselves; starting anew")


def main() -> None:
    """Entry point of `sloserve-operator`."""
    try:
        settings = CliApp.run(Settings)
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(str(part) for part in fault["loc"])
            option = name.replace("_", "-")
            given = f"{fault['input']!r}: {fault['msg']}"
            sys.stderr.write(f"SLOSERVE_{name.upper()} or --{option}: {given}; see --help\n")
        sys.exit(2)
    configure_logging(settings.log_format, settings.log_level)
    sys.exit(asyncio.run(run(settings)))


if __name__ == "__main__":
    main()
