"""What the cache knows and what the engines say, at one moment of a pass. Called by `reconcile`."""

import asyncio
from collections.abc import Mapping
from typing import Any

from .api.engine import EngineState
from .api.resource import SLOServe
from .cache import Cache
from .desired import config
from .desired.names import config_name
from .engine_metrics import EngineReader
from .view import Observed, PodView, ours


def children(cache: Cache, resource: SLOServe) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The live Deployment and ConfigMap, as far as known."""
    namespace = resource.namespace
    return (
        cache.get("Deployment", (namespace, resource.name)),
        cache.get("ConfigMap", (namespace, config_name(resource.name))),
    )


async def observe(
    cache: Cache, engines: EngineReader, resource: SLOServe, heard: dict[str, EngineState]
) -> Observed:
    """Deployment, pods with their engines' state, and the live settings in force in the ConfigMap.

    `heard`: by uid of the pod, what each engine said the last time; kept from look to look by the caller.
    """
    deployment, config_map = children(cache, resource)
    pods = [PodView(pod) for pod in cache.owned("Pod", resource.key) if ours(pod, resource.name)]
    pods.sort(key=lambda pod: (str(pod.obj["metadata"].get("creationTimestamp", "")), pod.name))
    kept = [pod for pod in pods if not pod.terminating and not pod.finished]
    views = await asyncio.gather(*(_ask(engines, pod, heard) for pod in kept))
    for gone in heard.keys() - {pod.uid for pod in kept}:
        del heard[gone]
    claims = cache.owned("PersistentVolumeClaim", resource.key)
    return Observed(
        deployment=deployment,
        pods=views,
        draining=[pod for pod in pods if pod.terminating and not pod.finished],
        config=config.written(config_map),
        ended=[pod for pod in pods if pod.finished],
        claims={claim["metadata"]["name"]: (claim.get("status") or {}).get("phase", "") for claim in claims},
    )


async def _ask(engines: EngineReader, pod: PodView, heard: dict[str, EngineState]) -> PodView:
    """One silence is forgiven: a busy engine that misses a deadline once would flip conditions and back."""
    if pod.address is None:
        return pod
    answer = await engines.read(pod.address)
    if isinstance(answer, str):
        last = heard.pop(pod.uid, None)
        return PodView(pod.obj, state=last) if last else PodView(pod.obj, unreachable=answer)
    heard[pod.uid] = answer
    return PodView(pod.obj, state=answer)
