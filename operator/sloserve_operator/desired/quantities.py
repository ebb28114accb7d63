"""Kubernetes quantities by value: 1000m = 1, 1Gi = 1024Mi. Pure; used by `names`, `drift` and `restart`."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
# Maps to quantities, and single ones, by the name they have everywhere in a pod and in our spec.
MAPS = ("limits", "requests")
SINGLE = ("sizeLimit", "sharedMemorySize", "divisor", "storage")


def quantity(value: Any) -> Decimal | None:
    """A quantity as a number; None if it is not one."""
    text = str(value)
    for suffix, factor in BINARY.items():
        if text.endswith(suffix):
            return _decimal(text.removesuffix(suffix), Decimal(factor))
    number, suffix = (text[:-1], text[-1]) if text[-1:] in SUFFIXES and text[-1:] else (text, "")
    return _decimal(number, Decimal(10) ** SUFFIXES[suffix])


def _decimal(text: str, factor: Decimal) -> Decimal | None:
    try:
        number = Decimal(text) * factor
    except ArithmeticError:  # no number, or one too large
        return None
    return number if number.is_finite() else None


def by_value(value: Any, key: str = "") -> Any:
    """The same document with every quantity in one spelling, so that two spellings are equal."""
    if isinstance(value, Mapping):
        if key in MAPS:
            return {name: _spelt(inner) for name, inner in value.items()}
        return {name: by_value(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [by_value(inner) for inner in value]
    return _spelt(value) if key in SINGLE else value


def _spelt(value: Any) -> Any:
    number = quantity(value)
    return value if number is None else f"{number.normalize():f}"
