"""The process: settings, ports, workers, kopf, and an exit status that means something. `sloserve-operator`.

Ends 0 only after SIGTERM or SIGINT. If kopf's tasks end for any other reason, the CRD does not appear or the
Lease is lost, the process ends non-zero and the kubelet starts it anew.
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import kopf
import structlog
from aiohttp import ClientError
from kubernetes.aio.client.rest import ApiException
from kubernetes.aio.config import ConfigException
from pydantic import ValidationError
from pydantic_settings import CliApp

from . import __version__
from .api import CRD, KIND
from .cache import Cache
from .desired.policies import operator_peer
from .engine_metrics import EngineClient
from .handlers import register
from .handlers import settings as kopf_settings
from .health import Health, serve
from .kube import Kube, KubeError
from .lease import Election, LostError
from .queue import KeyedQueue
from .reconcile import Images, Reconciler
from .resync import Resync
from .settings import Settings
from .skew import Skew
from .telemetry import Telemetry, configure_logging
from .work import drain, keep_checking, work

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
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
    text = f"the CRD {CRD} is not installed: install the chart with crds.enabled=true or apply crds/"
    while not await kube.served(KIND):
        if time.monotonic() > deadline:
            raise StartError(text)
        log.warning("waiting for the CRD", remedy=text)
        await asyncio.sleep(CRD_POLL_SECONDS)


def candidate(settings: Settings, kube: Kube, telemetry: Telemetry) -> Election | None:
    """This process in the election of a leader, which then says whether `kube` may write; None without one.

    Raises:
        StartError: no namespace for the Lease.
    """
    if not settings.leader_election:
        telemetry.leader.set(1)
        return None
    namespace = settings.lease_namespace
    if not namespace and POD_NAMESPACE.exists():
        namespace = POD_NAMESPACE.read_text().strip()
    if not namespace:
        raise StartError("leader election outside a pod needs SLOSERVE_LEASE_NAMESPACE or --lease-namespace")
    # A name of its own for each start: a container that starts anew is not the one that held the Lease.
    identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    election = Election(
        kube,
        telemetry,
        namespace=namespace,
        name=settings.lease_name,
        identity=identity,
        seconds=settings.lease_seconds,
    )
    kube.time_left = election.time_left
    return election


async def run(settings: Settings) -> int:
    """Run until told to stop. Returns: the exit status."""
    told, end_watches, primed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    _take_signals(told)
    async with AsyncExitStack() as stack:
        telemetry, cache, queue = Telemetry(), Cache(), KeyedQueue()
        kube, engines = Kube(settings.call_timeout_seconds), EngineClient(settings.engine_timeout_seconds)
        stack.push_async_callback(kube.close)
        stack.push_async_callback(engines.close)
        resync = Resync(kube, cache, queue, telemetry, settings.watched())
        skew = Skew(kube, telemetry)
        try:
            election = candidate(settings, kube, telemetry)
            health = Health(
                queue,
                resync,
                settings.resync_seconds,
                lease_fault=election.fault if election else lambda: None,
                remark=lambda: skew.verdict,
            )
            telemetry.follow(queue.waiting, queue.oldest_seconds, queue.failing, health.list_age)
            runners = await serve(health, telemetry, settings.health_port, settings.metrics_port)
        except StartError as error:
            log.error("cannot start", error=str(error))
            return 1
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
            operator=operator_peer(settings.operator_namespace, settings.operator_labels),
        )
        registry = kopf.OperatorRegistry()
        register(registry, cache, queue, telemetry, settings.kubeconfig)
        watching = asyncio.create_task(_watch(settings, kube, resync, registry, told, end_watches, primed))

        def leads() -> bool:
            return not told.is_set() and (election is None or election.held.is_set())

        background: list[asyncio.Task[None]] = [
            asyncio.create_task(work(queue, reconciler, telemetry, leads)) for _ in range(settings.workers)
        ]
        background.append(asyncio.create_task(keep_checking(resync, settings.resync_seconds)))
        background.append(asyncio.create_task(skew.follow(primed, settings.resync_seconds)))
        if election:
            background.append(asyncio.create_task(_elect(election, primed, resync)))
        stopping = asyncio.create_task(told.wait())
        await asyncio.wait([watching, stopping, *background], return_when=asyncio.FIRST_COMPLETED)
        if lost := next((t for t in background if t.done() and isinstance(t.exception(), LostError)), None):
            # No goodbyes: they would take time on a connection that does not work, and another may write now.
            log.error("ended", error=str(lost.exception()))
            os._exit(1)
        drained = False
        if clean := told.is_set():
            log.info("stopping")
            drained = await drain(queue)
        for task in (*background, stopping):
            task.cancel()
        results = await asyncio.gather(*background, return_exceptions=True)
        if election and drained:
            await election.release()
        end_watches.set()
        results += await asyncio.gather(watching, return_exceptions=True)
        faults = [result for result in results if isinstance(result, Exception)]
        for fault in faults:
            expected = isinstance(fault, StartError)
            log.error("ended", error=str(fault) or repr(fault), exc_info=None if expected else fault)
        return 0 if clean and not faults else 1


async def _elect(election: Election, primed: asyncio.Event, resync: Resync) -> None:
    """Take part once the cache is full: a standby that takes over knows all there is."""
    await primed.wait()
    await election.run(resync.look_at_all)


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
    primed: asyncio.Event,
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
    primed.set()
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
