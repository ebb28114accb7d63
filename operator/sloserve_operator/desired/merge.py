"""Kubernetes' strategic merge of `spec.podTemplate` into the engine's pod. Pure; called by `pod`.

What `kubectl patch --type=strategic` does to a pod, result and order alike: maps are merged, null removes a
key, the lists below are merged by their key, every other list is replaced. `$patch: delete` and `$patch:
replace` work; other directives stay in the result, and the API server refuses them by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sloserve_operator.api.resource import Object

PATCH = "$patch"
DIRECTIVES = ("merge", "replace", "delete")
# Merge keys by the name of the list, as in Kubernetes' types; a name means the same wherever it is in a pod.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}


def strategic(base: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """`base` with `patch` merged in; neither is changed."""
    directive = patch.get(PATCH)
    body = {key: value for key, value in patch.items() if key != PATCH or directive not in DIRECTIVES}
    if directive == "replace":
        return body
    if directive == "delete":
        return {}
    out = dict(base)
    for key, value in body.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping):
            below = out.get(key)
            out[key] = strategic(below if isinstance(below, Mapping) else {}, value)
        elif key in KEYS and _keyed(value, KEYS[key]) and _keyed(out.get(key, []), KEYS[key]):
            out[key] = _by_key(out.get(key, []), value, KEYS[key])
        else:
            out[key] = value
    return out


def _keyed(value: Any, key: str) -> bool:
    """Whether it is a list of maps with such a key; what is not replaces, for the API server to refuse."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and isinstance(item.get(key), str | int | None) for item in value
    )


def _by_key(base: Sequence[Object], patch: Sequence[Object], key: str) -> list[Object]:
    """Two lists of maps, merged by `key`."""
    if any(item.get(PATCH) == "replace" for item in patch):
        return [item for item in patch if PATCH not in item]
    gone = [item.get(key) for item in patch if item.get(PATCH) == "delete"]
    changes = [item for item in patch if item.get(PATCH) != "delete"]
    merged = {item.get(key): dict(item) for item in base if item.get(key) not in gone}
    for item in changes:
        merged[item.get(key)] = strategic(merged.get(item.get(key), {}), item)
    return _ordered(merged, [item.get(key) for item in base], [item.get(key) for item in changes])


def _ordered(merged: Mapping[Any, Object], base: list[Any], patch: list[Any]) -> list[Object]:
    """Patched items in the patch's order, the others where they stood before the ones they preceded."""
    left = [name for name in base if name in merged and name not in patch]
    right = list(dict.fromkeys(patch))
    out: list[Any] = []
    while left and right:
        first = right[0] in base and base.index(left[0]) < base.index(right[0])
        out.append(left.pop(0) if first else right.pop(0))
    return [merged[name] for name in [*out, *left, *right]]
