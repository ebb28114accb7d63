"""Engines that are none, for `benchmarks.scale`: pods that no node runs, and one server that answers for all.

The pods are real objects, made by the real Deployment controller; no scheduler and no kubelet takes them up.
Their status is what this module writes: running, Ready, at an address of the loopback network, where
`Engines` answers with the state of an engine that has applied its settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from sloserve_operator.desired.command import PORT
from sloserve_operator.desired.names import NAME_LABEL
from sloserve_operator.kube import Kube, KubeError

ADDRESS = "127.5.0.1"
NOBODY = "nobody"
PAUSE = 0.5
SILENCE = 20.0


class Engines:
    """The server at `ADDRESS`, a process of its own: a busy measuring program must not make it slow."""

    def __init__(self) -> None:
        self.revision = ""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.stand_in")
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    await self.set()
                    return
                await asyncio.sleep(0.2)

    async def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.terminate()
            await self._process.wait()

    async def set(self, *, busy: bool = False, silent: bool = False) -> int:
        """How it answers from now on. Returns: how often it was asked until now.

        busy: each answer counts more requests than the last. silent: none comes in time.
        """
        change = {"revision": self.revision, "busy": busy, "silent": silent}
        url = f"http://{ADDRESS}:{PORT}/set"
        async with aiohttp.ClientSession() as session, session.put(url, json=change) as answer:
            return int(await answer.text())


async def serve() -> None:
    """What the process does, for ever."""
    now: dict[str, Any] = {"revision": "", "busy": False, "silent": False}
    asked = itertools.count()

    async def state(request: web.Request) -> web.Response:
        number = next(asked)
        if now["silent"]:
            await asyncio.sleep(SILENCE)
        count = number if now["busy"] else 1000
        return web.json_response(
            {
                "version": "stand-in",
                "applied": {"revision": now["revision"], "generation": 1},
                "policy": "slidingserve_paper",
                "classes": {"dialogue": {"requests": count, "good": count, "violations": {}}},
            }
        )

    async def change(request: web.Request) -> web.Response:
        now.update(await request.json())
        return web.Response(text=str(next(asked)))

    application = web.Application()
    application.add_routes([web.get("/slidingserve/v1/state", state), web.put("/set", change)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, PORT).start()
    await asyncio.Event().wait()


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


if __name__ == "__main__":
    asyncio.run(serve())
