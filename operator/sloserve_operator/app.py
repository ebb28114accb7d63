"""The process: its parts put together, and an exit status that means something. `sloserve-operator`.

Ends 0 only after SIGTERM or SIGINT. If a part ends for any other reason, or the Lease is lost, the process
ends non-zero and the kubelet starts it anew.
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog
from kubernetes.aio.config import ConfigException
from pydantic import ValidationError
from pydantic_settings import CliApp

from . import __version__, handlers
from .apply import Images
from .cache import Cache
from .desired.policies import operator_peer
from .engine_metrics import EngineClient
from .health import Health, serve
from .kube import Kube
from .lease import Election, LostError
from .logs import configure_logging
from .queue import KeyedQueue
from .reconcile import Reconciler
from .resync import Resync
from .settings import Settings
from .skew import Skew
from .telemetry import Telemetry
from .watches import WatchError, Watches
from .work import drain, keep_checking, work

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
log = structlog.stdlib.get_logger("sloserve.app")


class StartError(RuntimeError):
    """The operator cannot start; the text says what to do."""


class Process:
    """All parts of one run, put together."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.told = asyncio.Event()
        self.telemetry, self.cache, self.queue = Telemetry(), Cache(), KeyedQueue()
        self.kube = Kube(settings.call_timeout_seconds)
        self.engines = EngineClient(settings.engine_timeout_seconds)
        self.resync = Resync(self.kube, self.cache, self.queue, self.telemetry, settings.watched())
        self.watches = Watches(self.kube, self.resync, self._informer())
        self.skew = Skew(self.kube, self.telemetry)
        self.election = self._candidate()
        self.health = Health(
            self.queue,
            self.resync,
            self.watches,
            settings.resync_seconds,
            lease_fault=self.election.fault if self.election else lambda: None,
            remark=self.remark,
        )
        queue, telemetry = self.queue, self.telemetry
        telemetry.follow(queue.waiting, queue.oldest_seconds, queue.failing, self.health.list_age)

    def remark(self) -> str:
        """What is no fault of this process and worth a line in /livez and /readyz."""
        held = self.election.remark() if self.election else ""
        return "\n".join(filter(None, (self.skew.verdict, self.resync.remark(), held)))

    def _informer(self) -> Any:
        settings = self.settings

        def inform() -> Any:
            kinds = self.resync.watched()
            return handlers.inform(
                handlers.registry(self.cache, self.queue, self.telemetry, self.kube, kinds),
                handlers.settings(settings.watch_seconds, settings.watch_silence_seconds),
                self.resync.present(),
                # kopf's own signal handlers would end the watches before the work in hand.
                started=self.take_signals,
            )

        return inform

    def _candidate(self) -> Election | None:
        """This process in the election of a leader, which then says whether it may write.

        Raises:
            StartError: no namespace for the Lease.
        """
        settings = self.settings
        if not settings.leader_election:
            self.telemetry.leader.set(1)
            return None
        namespace = settings.lease_namespace
        if not namespace and POD_NAMESPACE.exists():
            namespace = POD_NAMESPACE.read_text().strip()
        if not namespace:
            raise StartError(
                "leader election outside a pod needs SLOSERVE_LEASE_NAMESPACE or --lease-namespace"
            )
        # A name of its own for each start: a container that starts anew is not the one that held the Lease.
        identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        election = Election(
            self.kube,
            self.telemetry,
            namespace=namespace,
            name=settings.lease_name,
            identity=identity,
            seconds=settings.lease_seconds,
        )
        self.kube.time_left = election.time_left
        return election

    def take_signals(self) -> None:
        """SIGTERM and SIGINT ask for a graceful end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.told.set)

    async def open(self, stack: AsyncExitStack) -> None:
        """Ports and credentials.

        Raises:
            StartError: one of them cannot be had.
        """
        stack.push_async_callback(self.kube.close)
        stack.push_async_callback(self.engines.close)
        settings = self.settings
        try:
            runners = await serve(self.health, self.telemetry, settings.health_port, settings.metrics_port)
        except OSError as error:
            text = f"{error.strerror or error}: choose other health or metrics ports"
            raise StartError(text) from None
        for runner in runners:
            stack.push_async_callback(runner.cleanup)
        try:
            await self.kube.connect(settings.kubeconfig)
        except (ConfigException, OSError) as error:
            where = f"in {settings.kubeconfig}" if settings.kubeconfig else "of a pod's service account"
            raise StartError(f"no credentials for the API server {where}: {error}") from None

    def leads(self) -> bool:
        """Whether this process may begin a look."""
        return not self.told.is_set() and (self.election is None or self.election.held.is_set())

    async def _elect(self, election: Election) -> None:
        """Take part once the cache is full: a standby that takes over knows all there is."""
        await self.watches.active.wait()
        await election.run(self.resync.look_at_all)

    def begin(self) -> list[asyncio.Task[None]]:
        """Start watches, workers, LISTs and election; none of them ends by itself."""
        settings = self.settings
        reconciler = Reconciler(
            self.kube,
            self.cache,
            self.engines,
            self.telemetry,
            Images(settings.engine_image, settings.engine_image_cpu),
            poll_seconds=settings.poll_seconds,
            instance=socket.gethostname(),
            operator=operator_peer(settings.operator_namespace, settings.operator_labels),
            run_as=settings.run_as,
            unseen=self.resync.unseen,
        )
        parts: list[Any] = [self.watches.run()]
        parts += [work(self.queue, reconciler, self.telemetry, self.leads) for _ in range(settings.workers)]
        parts.append(keep_checking(self.resync, self.watches.active, settings.resync_seconds))
        parts.append(self.skew.follow(self.watches.active, settings.resync_seconds))
        if self.election:
            parts.append(self._elect(self.election))
        return [asyncio.create_task(part) for part in parts]

    async def end(self, tasks: list[asyncio.Task[None]]) -> list[Exception]:
        """End all after the work in hand, the Lease first. Returns: what ended with a fault before."""
        drained = False
        if self.told.is_set():
            log.info("stopping")
            drained = await drain(self.queue)
        for task in tasks:
            task.cancel()
        if self.election and drained:
            await self.election.release()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return [result for result in results if isinstance(result, Exception)]


async def run(settings: Settings) -> int:
    """Run until told to stop. Returns: the exit status."""
    async with AsyncExitStack() as stack:
        try:
            process = Process(settings)
            process.take_signals()
            await process.open(stack)
        except StartError as error:
            log.error("cannot start", error=str(error))
            return 1
        log.info("starting", version=__version__, namespaces=settings.namespaces or "all")
        tasks = process.begin()
        stopping = asyncio.create_task(process.told.wait())
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if lost := next((t for t in tasks if t.done() and isinstance(t.exception(), LostError)), None):
            # No goodbyes: they would take time on a connection that does not work, and another may write now.
            log.error("ended", error=str(lost.exception()))
            os._exit(1)
        clean = process.told.is_set()
        stopping.cancel()
        faults = await process.end(tasks)
        for fault in faults:
            expected = isinstance(fault, WatchError | LostError)
            log.error("ended", error=str(fault) or repr(fault), exc_info=None if expected else fault)
    log.info("ended")
    return 0 if clean and not faults else 1


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
