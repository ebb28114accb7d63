"""Engines that are none, for `benchmarks.scale`: pods that no node runs, and one server that answers for all.

The pods are real objects, made by the real Deployment controller; no scheduler and no kubelet takes them up.
Their status is what this module writes: running, Ready, at an address of the loopback network, where
`Engines` answers with the state of an engine that has applied its settings.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from sloserve_operator.desired.command import PORT
from sloserve_operator.desired.names import NAME_LABEL
from sloserve_operator.kube import Kube, KubeError

ADDRESS = "127.5.0.1"
NOBODY = "nobody"
PAUSE = 0.5
SILENCE = 20.0


class Engines:
    """The server at `ADDRESS`.

    `busy`: each answer counts more requests than the last. `silent`: none comes in time.
    """

    def __init__(self) -> None:
        self.revision, self.busy, self.silent, self.asked = "", False, False, 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen."""
        application = web.Application()
        application.router.add_get("/slidingserve/v1/state", self._state)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, ADDRESS, PORT).start()

    async def stop(self) -> None:
        """End."""
        if self._runner:
            await self._runner.cleanup()

    async def _state(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.silent:
            await asyncio.sleep(SILENCE)
        count = self.asked if self.busy else 1000
        state = {
            "version": "stand-in",
            "applied": {"revision": self.revision, "generation": 1},
            "policy": "slidingserve",
            "classes": {"dialogue": {"requests": count, "good": count, "violations": {}}},
        }
        return web.json_response(state)


def manifest(namespace: str, name: str, **changes: Any) -> dict[str, Any]:
    """A resource with one engine that nobody runs, and a child of each of the usual kinds."""
    spec = {
        "model": {"uri": "file:///models/demo"},
        "engine": {"accelerator": "cpu", "drainTimeoutSeconds": 0},
        "sloClasses": [{"name": "dialogue", "ttft": {"slowdown": 5}, "tbtMilliseconds": 40}],
        "podTemplate": {"spec": {"schedulerName": NOBODY}},
        **changes,
    }
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "sloserve.dev/v1alpha1", "kind": "SLOServe", "metadata": meta, "spec": spec}


async def play_kubelet(kube: Kube, namespace: str) -> None:
    """For ever: whatever pod is there is made to run."""
    done: set[str] = set()
    while True:
        with contextlib.suppress(KubeError):
            pods, _ = await kube.list("Pod", namespace)
            fresh = [pod for pod in pods if pod["metadata"]["uid"] not in done]
            await asyncio.gather(*(_run(kube, pod) for pod in fresh))
            done |= {pod["metadata"]["uid"] for pod in fresh}
        await asyncio.sleep(PAUSE)


async def _run(kube: Kube, pod: dict[str, Any]) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    container = {
        "name": "main",
        "image": "none",
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }
    status = {
        "phase": "Running",
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [container],
    }
    await kube._call(
        f"run pod {pod['metadata']['labels'][NAME_LABEL]}",
        "patch",
        "Pod",
        sub="status",
        name=pod["metadata"]["name"],
        namespace=pod["metadata"]["namespace"],
        body={"status": status},
        content_type="application/merge-patch+json",
    )
