"""Does the live object hold everything that we ask for? Pure; `reconcile` writes only if not.

Live objects carry defaults and other managers' fields, so every field of ours is looked up in the live object
and nothing else. What selects is the exception: it is ours as a whole, for one more label selects nothing. A
field that we no longer ask for shows in the hash annotation that `names.child` sets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .quantities import quantity

# The first three before the name: mounts, ports and owners may share one.
MERGE_KEYS = ("containerPort", "mountPath", "uid", "name")
# Atomic in Kubernetes' types, and without defaults: an apply replaces them whole.
ATOMIC = ("selector", "podSelector", "namespaceSelector", "labelSelector", "nodeSelector", "ingress")
# Zero means what absence does, and the API server keeps none: `readOnly: false` of a podTemplate.
ZERO_IS_ABSENT = (
    *("readOnly", "hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty"),
    *("hostPort", "initialDelaySeconds"),
)
QUANTITIES = ("limits", "requests", "sizeLimit", "divisor", "storage")


def drift(desired: Any, live: Any, path: str = "") -> str | None:
    """Path of the first field of `desired` that `live` lacks or holds otherwise; None if there is none."""
    name = path.rpartition(".")[2]
    if name in ATOMIC:
        return None if _whole(desired, live) else path
    if isinstance(desired, Mapping):
        if not desired and live in (None, {}):
            return None
        if not isinstance(live, Mapping):
            return path
        for key, value in desired.items():
            if found := drift(value, live.get(key), f"{path}.{key}" if path else key):
                return found
        return None
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        return _list(desired, live, path)
    if desired == live or (live is None and (desired == "" or (not desired and name in ZERO_IS_ABSENT))):
        return None
    if any(f".{word}" in path for word in QUANTITIES) and quantity(desired) == quantity(live) is not None:
        return None
    return path


def _list(desired: Sequence[Any], live: Any, path: str) -> str | None:
    if not isinstance(live, Sequence) or isinstance(live, str):
        return path if desired else None
    key = next((k for k in MERGE_KEYS if _is_key(k, desired)), None)
    if key is None:
        if len(desired) != len(live):
            return path
        pairs = zip(desired, live, strict=True)
        return next((found for i, (a, b) in enumerate(pairs) if (found := drift(a, b, f"{path}[{i}]"))), None)
    by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
    for item in desired:
        if found := drift(item, by_key.get(item[key]), f"{path}[{item[key]}]"):
            return found
    return None


def _is_key(key: str, items: Sequence[Any]) -> bool:
    """Whether every item has one, and each another; what a podTemplate gives need not."""
    if not all(isinstance(item, Mapping) and isinstance(item.get(key), str | int) for item in items):
        return False
    return 0 < len(items) == len({item[key] for item in items})


def _whole(desired: Any, live: Any) -> bool:
    """Equal, but for empty lists and maps of ours that the API server leaves out; not an empty selector: to
    select everything and to select nothing are two things."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        dropped = {key for key in desired.keys() - live.keys() if not desired[key] and key not in ATOMIC}
        return desired.keys() - dropped == live.keys() and all(_whole(desired[k], live[k]) for k in live)
    if isinstance(desired, list) and isinstance(live, list):
        return len(desired) == len(live) and all(map(_whole, desired, live))
    return bool(desired == live)
