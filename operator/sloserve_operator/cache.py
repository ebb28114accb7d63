"""What the watches last said, by kind and key. Filled by `handlers`, `resync` and our writes; read by all.

Writes are put here as they are answered, so a reconcile that follows at once sees them; an event older than
what is known is ignored, whatever the order of arrival.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .api import KIND
from .api.resource import Object, controller_of
from .desired.names import MANAGER, NAME_LABEL

Key = tuple[str, str]
DROPPED_POD_SPEC = ("containers", "initContainers", "volumes", "tolerations", "affinity")
TOMBSTONES = 4096


def key_of(obj: Mapping[str, Any]) -> Key:
    """(namespace, name) of an object."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def version_of(obj: Mapping[str, Any]) -> int:
    """Resource version as a number: all that we compare come from one etcd."""
    return int(obj["metadata"].get("resourceVersion") or 0)


def owner_key(kind: str, obj: Mapping[str, Any]) -> Key | None:
    """Key of the SLOServe that an object belongs to: itself, its controller, or by the label of a pod."""
    if kind == KIND:
        return key_of(obj)
    controller = controller_of(obj)
    if controller and controller["kind"] == KIND:
        return key_of(obj)[0], controller["name"]
    name = (obj["metadata"].get("labels") or {}).get(NAME_LABEL)
    return (key_of(obj)[0], name) if name else None


def trim(kind: str, obj: Mapping[str, Any]) -> Object:
    """The object without what we never read: most of managedFields, most of a pod's spec."""
    meta = dict(obj["metadata"])
    entries = meta.pop("managedFields", None) or []
    # Made by POST and not yet turned into an apply: see `kube.own`.
    created_only = any(e.get("manager") == MANAGER and e.get("operation") == "Update" for e in entries)
    out = {
        "apiVersion": obj.get("apiVersion"),
        "kind": kind,
        **obj,
        "metadata": {**meta, "createdOnly": created_only},
    }
    if kind == "Pod":
        out["spec"] = {k: v for k, v in (obj.get("spec") or {}).items() if k not in DROPPED_POD_SPEC}
    return out


class Cache:
    """Latest known objects. Not a lock: one event loop reads and writes it."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._by_owner: dict[str, dict[Key, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self._gone: OrderedDict[tuple[str, Key], int] = OrderedDict()

    def put(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Take an object in; False if it is older than what is known."""
        key, version = key_of(obj), version_of(obj)
        known = self._objects[kind].get(key)
        # An object that only lost our label leaves the watch at a version at which it still exists.
        if version < self._gone.get((kind, key), 0) or (known and version <= version_of(known)):
            return False
        if known:
            self._forget(kind, key)
        self._objects[kind][key] = trim(kind, obj)
        if owner := owner_key(kind, obj):
            self._by_owner[kind][owner].add(key)
        return True

    def drop(self, kind: str, obj: Mapping[str, Any]) -> None:
        """Take a deleted object out, unless a newer one of that name is known."""
        key, version = key_of(obj), version_of(obj)
        known = self._objects[kind].get(key)
        if known and version_of(known) > version:
            return
        self._gone[(kind, key)] = version
        if len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)
        if known:
            self._forget(kind, key)

    def _forget(self, kind: str, key: Key) -> None:
        old = self._objects[kind].pop(key)
        owner = owner_key(kind, old)
        if owner and owner in self._by_owner[kind]:
            self._by_owner[kind][owner].discard(key)
            if not self._by_owner[kind][owner]:
                del self._by_owner[kind][owner]

    def leave(self, kind: str, namespace: str) -> list[Object]:
        """Forget a namespace that can no longer be read. Returns: what was known of it."""
        gone = [obj for key, obj in self._objects[kind].items() if key[0] == namespace]
        for obj in gone:
            self._forget(kind, key_of(obj))
        return gone

    def get(self, kind: str, key: Key) -> Object | None:
        """One object, or None."""
        return self._objects[kind].get(key)

    def owned(self, kind: str, owner: Key) -> list[Object]:
        """Objects of a kind that belong to a SLOServe, by name."""
        keys = self._by_owner[kind].get(owner, ())
        return [self._objects[kind][key] for key in sorted(keys)]

    def size(self) -> int:
        """How many objects are known; what only remembers that one is gone does not count."""
        return sum(map(len, self._objects.values()))

    def resources(self) -> list[Key]:
        """Keys of all known SLOServes."""
        return list(self._objects[KIND])

    def lagging(self, kind: str, listed: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Key, int]]:
        """(key, version) of listed objects that no watch has told us of yet."""
        for obj in listed:
            if self.version(kind, key_of(obj)) < version_of(obj):
                yield key_of(obj), version_of(obj)

    def version(self, kind: str, key: Key) -> int:
        """Version at which an object is known; 0 if it is not."""
        known = self._objects[kind].get(key)
        return version_of(known) if known else 0

    def vanished(self, kind: str, listed: Iterable[Mapping[str, Any]], version: int) -> list[Object]:
        """Known objects that a LIST at `version` no longer holds."""
        there = {key_of(obj) for obj in listed}
        return [o for key, o in self._objects[kind].items() if key not in there and version_of(o) <= version]
