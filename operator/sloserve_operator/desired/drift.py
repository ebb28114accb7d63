"""Does the live object hold everything that we ask for? Pure; `reconcile` writes only if not.

Live objects carry defaults and other managers' fields, so every field of ours is looked up in the live object
and nothing else. A field that we no longer ask for shows in the hash annotation that `names.child` sets.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

MERGE_KEYS = ("name", "containerPort", "mountPath", "uid")
QUANTITIES = ("limits", "requests", "sizeLimit")
SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


def drift(desired: Any, live: Any, path: str = "") -> str | None:
    """Path of the first field of `desired` that `live` lacks or holds otherwise; None if there is none."""
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
    if desired == live or (live is None and desired == ""):
        return None
    if any(f".{word}" in path for word in QUANTITIES) and quantity(desired) == quantity(live) is not None:
        return None
    return path


def _list(desired: Sequence[Any], live: Any, path: str) -> str | None:
    if not isinstance(live, Sequence) or isinstance(live, str):
        return path if desired else None
    key = next(
        (k for k in MERGE_KEYS if desired and isinstance(desired[0], Mapping) and k in desired[0]), None
    )
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


def quantity(value: Any) -> Decimal | None:
    """Kubernetes quantity as a number: 1000m = 1, 1Gi = 1073741824; None if it is not one."""
    text = str(value)
    for suffix, factor in BINARY.items():
        if text.endswith(suffix):
            return _decimal(text.removesuffix(suffix), Decimal(factor))
    number, suffix = (text[:-1], text[-1]) if text[-1:] in SUFFIXES and text[-1:] else (text, "")
    return _decimal(number, Decimal(10) ** SUFFIXES[suffix])


def _decimal(text: str, factor: Decimal) -> Decimal | None:
    try:
        return Decimal(text) * factor
    except InvalidOperation:
        return None
