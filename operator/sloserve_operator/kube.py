"""What the operator asks of the API server, but for the watches. Used by `reconcile`, `resync` and `lease`.

A child is made by POST, so that an object of the same name that is not ours is never touched. POST leaves its
fields under an "Update" entry of managedFields; before the first apply `own` turns it into "Apply", or a
field that an apply leaves out would stay for ever.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .api import API_VERSION, KIND
from .api.resource import Object
from .cache import key_of
from .connection import Connection, KubeError
from .desired.names import MANAGER, NUDGE
from .kinds import SELECTOR

UNDECLARED = re.compile(r"\.status\.(\w+)(?:\[[^]]*\]\.(\w+)|[^:]*): field not declared in schema")
__all__ = ["Kube", "KubeError"]


class Kube(Connection):
    """The few calls that the operator makes, on plain dicts; each may raise a KubeError."""

    async def served(self, namespace: str | None) -> bool:
        """Whether the server knows our kind."""
        try:
            await self._call(f"look for {KIND}", "get", KIND, namespace=namespace, limit=1)
        except KubeError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def create(self, obj: Object, within: float | None = None) -> Object:
        """POST; KubeError 409 if the name is taken, 400 for a field that the server does not know.

        An apply is strict by itself; a POST would drop a misspelt field and start engines without it.
        """
        action = f"create {obj['kind']} {obj['metadata']['name']}"
        return await self._call(
            action, "create", obj["kind"], within=within, strict=True, body=obj, field_manager=MANAGER
        )

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
            known = _without(status, UNDECLARED.findall(error.message))
            if known == status:
                raise
        return await self._apply_status(meta, known)

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
        """POST one event."""
        await self._call("post event", "create", "Event", body=dict(event))


def _without(status: Object, undeclared: Sequence[tuple[str, str]]) -> Object:
    """A status without these fields: of its own, or of each item of a list of its own."""
    out = dict(status)
    for name, inner in undeclared:
        if inner and name in out:
            out[name] = [{k: v for k, v in item.items() if k != inner} for item in out[name]]
        else:
            out.pop(name, None)
    return out
