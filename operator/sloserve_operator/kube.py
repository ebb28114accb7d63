"""All calls to the API server but the watches, each with a deadline. Used by `reconcile`, `resync` and `app`.

A child is made by POST, so that an object of the same name that is not ours is never touched. POST leaves its
fields under an "Update" entry of managedFields; before the first apply `own` turns it into "Apply", or a
field that an apply leaves out would stay for ever.

With leader election, `time_left` says for how long this process may write: a write ends before that time is
up, and none begins after it.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.exceptions import ResourceNotFoundError

from .api import API_VERSION, KIND
from .api.resource import Object
from .cache import key_of
from .desired.names import MANAGED_BY, MANAGER, NUDGE

VERSIONS = {
    KIND: API_VERSION,
    "Deployment": "apps/v1",
    "Service": "v1",
    "ConfigMap": "v1",
    "ServiceAccount": "v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Pod": "v1",
    "Event": "events.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
}
UNDECLARED = re.compile(r"\.status\.(\w+)[^:]*: field not declared in schema")
SELECTOR = f"{MANAGED_BY}={MANAGER}"


class KubeError(Exception):
    """A call that failed: HTTP status (0 if the server did not answer) and the server's sentence.

    `retry_after`: seconds for which the server asks to be left alone.
    """

    def __init__(self, action: str, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{action}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def refused(self) -> bool:
        """The same request will be refused again: the object itself is at fault."""
        undeclared = self.status == 500 and "field not declared in schema" in self.message
        return self.status in (400, 405, 413, 415, 422) or undeclared


class Kube:
    """The few calls that the operator makes, on plain dicts."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.time_left: Callable[[], float] = lambda: float("inf")
        self._api: Any = None
        self._dynamic: Any = None
        self._resources: dict[str, Any] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="sloserve-")

    async def connect(self, kubeconfig: Path | None) -> None:
        """Read credentials and discover the server's API groups."""
        configuration = client.Configuration()
        if kubeconfig:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
        self._api = client.ApiClient(configuration)
        # A discovery cache of our own: one left in /tmp by an earlier start may not know today's CRD.
        cache = str(Path(self._scratch.name) / "discovery.json")
        async with asyncio.timeout(self._timeout * 3):
            self._dynamic = await DynamicClient(self._api, cache_file=cache)

    async def close(self) -> None:
        """End the connections."""
        if self._api:
            await self._api.close()
        self._scratch.cleanup()

    async def served(self, kind: str) -> bool:
        """Whether the server knows a kind."""
        try:
            await self._resource(kind)
        except ResourceNotFoundError:
            return False
        return True

    async def _resource(self, kind: str) -> Any:
        if kind not in self._resources:
            self._resources[kind] = await self._dynamic.resources.get(api_version=VERSIONS[kind], kind=kind)
        return self._resources[kind]

    def _deadline(self, action: str, verb: str, kind: str, within: float | None) -> float:
        """Seconds that a call may take. KubeError for a write of a process that may not write."""
        wanted = within or self._timeout
        if verb == "get" or kind == "Lease":
            return wanted
        left = self.time_left()
        if left <= 0:
            raise KubeError(action, 0, "this process is not the leader: nothing is written")
        return min(wanted, left)

    async def _call(
        self,
        action: str,
        verb: str,
        kind: str,
        /,
        *,
        sub: str | None = None,
        within: float | None = None,
        **params: Any,
    ) -> Object:
        seconds = self._deadline(action, verb, kind, within)
        try:
            async with asyncio.timeout(seconds):
                resource = await self._resource(kind)
                target = resource.subresources[sub] if sub else resource
                response = await getattr(self._dynamic, verb)(
                    target, serialize=False, _request_timeout=seconds, **params
                )
                answer: Object = await response.json()
                return answer
        except ApiException as error:
            raise KubeError(action, int(error.status or 0), _sentence(error), _retry_after(error)) from None
        except ResourceNotFoundError:
            raise KubeError(action, 404, f"the API server does not serve {kind}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            text = str(error) or f"no answer within {seconds:.3g} s"
            raise KubeError(action, 0, text) from None

    async def create(self, obj: Object, within: float | None = None) -> Object:
        """POST; KubeError 409 if the name is taken."""
        action = f"create {obj['kind']} {obj['metadata']['name']}"
        return await self._call(action, "create", obj["kind"], within=within, body=obj, field_manager=MANAGER)

    async def replace(self, obj: Object, within: float | None = None) -> Object:
        """PUT; KubeError 409 if the object is no longer the one that was read."""
        action = f"replace {obj['kind']} {obj['metadata']['name']}"
        return await self._call(
            action, "replace", obj["kind"], within=within, body=obj, field_manager=MANAGER
        )

    async def own(self, obj: Object) -> Object:
        """Turn the managedFields entry of our POST into one of an apply; `obj` as the server gave it."""
        entries = obj["metadata"].get("managedFields") or []
        ours = [i for i, e in enumerate(entries) if e["manager"] == MANAGER and e["operation"] == "Update"]
        if not ours:
            return obj
        path = f"/metadata/managedFields/{ours[0]}"
        if any(e["manager"] == MANAGER and e["operation"] == "Apply" for e in entries):
            change: list[Object] = [{"op": "remove", "path": path}]
        else:
            change = [{"op": "replace", "path": f"{path}/operation", "value": "Apply"}]
        tests = [
            {"op": "test", "path": f"{path}/{field}", "value": value}
            for field, value in (("manager", MANAGER), ("operation", "Update"))
        ]
        return await self._patch(obj, [*tests, *change], "application/json-patch+json")

    async def _patch(self, obj: Object, body: Any, content_type: str, **params: Any) -> Object:
        namespace, name = key_of(obj)
        action = f"patch {obj['kind']} {name}"
        return await self._call(
            action,
            "patch",
            obj["kind"],
            name=name,
            namespace=namespace,
            body=body,
            content_type=content_type,
            field_manager=MANAGER,
            **params,
        )

    async def apply(self, obj: Object, uid: str) -> Object:
        """Server-side apply to the object of that uid; any other of that name is a KubeError 409 or 422."""
        body = {**obj, "metadata": {**obj["metadata"], "uid": uid}}
        action = f"apply {obj['kind']} {obj['metadata']['name']}"
        return await self._call(
            action, "server_side_apply", obj["kind"], body=body, field_manager=MANAGER, force_conflicts=True
        )

    async def apply_status(self, meta: Mapping[str, Any], status: Object) -> Object:
        """Server-side apply of the whole status, which is ours alone; `meta` identifies the resource.

        A CRD that is older than this operator refuses fields that it does not know: these are left out then.
        """
        try:
            return await self._apply_status(meta, status)
        except KubeError as error:
            unknown = set(UNDECLARED.findall(error.message))
            if not unknown & status.keys():
                raise
        return await self._apply_status(meta, {key: status[key] for key in status.keys() - unknown})

    async def _apply_status(self, meta: Mapping[str, Any], status: Object) -> Object:
        metadata = {field: meta[field] for field in ("name", "namespace", "uid")}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}
        return await self._call(
            f"write status of {meta['name']}",
            "server_side_apply",
            KIND,
            sub="status",
            body=body,
            field_manager=MANAGER,
            force_conflicts=True,
        )

    async def get(self, kind: str, namespace: str, name: str, within: float | None = None) -> Object | None:
        """The live object, or None."""
        action = f"read {kind} {name}"
        try:
            return await self._call(action, "get", kind, within=within, name=name, namespace=namespace)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: str, namespace: str | None) -> tuple[list[Object], int]:
        """All objects of a kind that we serve or made, and the version of the list."""
        selector = None if kind == KIND else SELECTOR
        answer = await self._call(f"list {kind}", "get", kind, namespace=namespace, label_selector=selector)
        return answer["items"], int(answer["metadata"]["resourceVersion"])

    async def delete(self, obj: Object) -> None:
        """Delete exactly this object; gone already is as good."""
        namespace, name = key_of(obj)
        body = {"propagationPolicy": "Background", "preconditions": {"uid": obj["metadata"]["uid"]}}
        try:
            await self._call(
                f"delete {obj['kind']} {name}",
                "delete",
                obj["kind"],
                name=name,
                namespace=namespace,
                body=body,
            )
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def nudge(self, namespace: str, pod: str, value: str) -> None:
        """Annotate a pod through its status: the kubelet then refreshes its ConfigMap volume at once."""
        body = {"metadata": {"annotations": {NUDGE: value}}}
        await self._call(
            f"nudge pod {pod}",
            "patch",
            "Pod",
            sub="status",
            name=pod,
            namespace=namespace,
            body=body,
            content_type="application/merge-patch+json",
            field_manager=MANAGER,
        )

    async def event(self, event: Mapping[str, Any]) -> None:
        """POST one events.k8s.io event."""
        await self._call("post event", "create", "Event", body=dict(event))


def _sentence(error: ApiException) -> str:
    """The server's own words."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or error.status)


def _retry_after(error: ApiException) -> float:
    """Seconds of the header Retry-After; Kubernetes sends no dates."""
    try:
        return max(0.0, float((error.headers or {})["Retry-After"]))
    except (KeyError, TypeError, ValueError):
        return 0.0
