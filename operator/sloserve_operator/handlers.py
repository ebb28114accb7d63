"""kopf as the informer: every watch event goes into the cache and asks for a look at its owner. Nothing else.

Run by `watches`. `on.event` only: it leaves no finalizer and no annotation on anybody's object. The one
`on.login` gives kopf the same credentials as `connection` has, read anew each time kopf asks.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import kopf

from . import backoff
from .api import GROUP
from .cache import Cache, owner_key
from .connection import Connection
from .kinds import LABELLED, SELECTOR, WATCHED, Kind
from .queue import KeyedQueue
from .telemetry import Telemetry

STOP_SECONDS = 2.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 5.0  # an API server that is back is used at once


class ForEver:
    """Pauses between the attempts of a watch: growing, and without an end."""

    def __iter__(self) -> Iterator[float]:
        return (backoff.pause(n, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS) for n in itertools.count())


def settings(watch_seconds: int, silence_seconds: float) -> kopf.OperatorSettings:
    """kopf's settings: dead connections are noticed, no scanning, nothing posted, nothing persisted.

    A watch is ended by the server after `watch_seconds`, and by us when nothing came for `silence_seconds`:
    the server sends a bookmark every minute.
    """
    out = kopf.OperatorSettings()
    out.watching.server_timeout = watch_seconds
    out.watching.client_timeout = watch_seconds + 10
    out.watching.inactivity_timeout = silence_seconds
    out.watching.connect_timeout = 30
    out.networking.request_timeout = 30
    out.networking.error_backoffs = ForEver()
    out.networking.trust_env = False
    out.process.ultimate_exiting_timeout = None  # the process outlives kopf's tasks
    out.scanning.disabled = True
    out.posting.enabled = False
    out.persistence.finalizer = f"{GROUP}/unused"
    out.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    out.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    for kind in LABELLED:
        out.watching.label_selectors[(kind.group, kind.version, kind.plural)] = SELECTOR
    return out


def registry(
    cache: Cache,
    queue: KeyedQueue,
    telemetry: Telemetry,
    connection: Connection,
    kinds: Iterable[Kind] = WATCHED,
) -> kopf.OperatorRegistry:
    """The login and one handler per kind."""
    out = kopf.OperatorRegistry()

    @kopf.on.login(registry=out)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        await connection.login()
        known = connection.configuration
        scheme, _sep, token = known.api_key.get("BearerToken", "").partition(" ")
        return kopf.ConnectionInfo(
            server=known.host,
            ca_path=known.ssl_ca_cert,
            insecure=not known.verify_ssl,
            scheme=scheme or None,
            token=token or None,
            certificate_path=known.cert_file,
            private_key_path=known.key_file,
            proxy_url=known.proxy,
        )

    for kind in kinds:
        _watch(out, kind, cache, queue, telemetry)
    return out


def _watch(
    registry: kopf.OperatorRegistry, watched: Kind, cache: Cache, queue: KeyedQueue, telemetry: Telemetry
) -> None:
    kind = watched.kind

    @kopf.on.event(*watched[:3], registry=registry, id=f"watch-{kind.lower()}")
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        obj: dict[str, Any] = dict(event["object"])
        telemetry.events.labels(kind).inc()
        owner = owner_key(kind, obj)
        if event["type"] == "DELETED":
            cache.drop(kind, obj)
        elif not cache.put(kind, obj):
            return  # our own write, or already listed
        if owner:
            queue.add(owner, event=True)


async def inform(
    registry: kopf.OperatorRegistry,
    settings: kopf.OperatorSettings,
    namespaces: list[str],
    *,
    started: Callable[[], None],
) -> None:
    """Watch until cancelled. kopf's error, should its tasks end by themselves.

    Not by `kopf.run_tasks`: that waits five seconds for every task of the process, and then cancels them.
    """
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    started()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(tasks)
        await _cancel(filter(_of_kopf, asyncio.all_tasks()))
    raise RuntimeError("kopf ended without saying why")


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in (left := [*tasks]):
        task.cancel()
    if left:
        ended, _ = await asyncio.wait(left, timeout=STOP_SECONDS)
        for task in ended:
            task.cancelled() or task.exception()  # or asyncio would complain that nobody asked


def _of_kopf(task: asyncio.Task[Any]) -> bool:
    """Whether kopf began it: of its tasks that ended early it leaves some behind."""
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("kopf.")
