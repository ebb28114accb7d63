"""`scheduler.options` of slidingserve.json, made from `PolicySettings`, so that no option can be forgotten.

Names, types, defaults and descriptions are those of the dataclass; only the bounds of numbers are added here,
and a number without them is an error at import.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, create_model

from slidingserve.core.settings import PolicySettings

ELSEWHERE = ("alpha", "min_chunk", "max_chunk", "overload")
"""Settings that have keys of their own: `scheduler.alpha`, `scheduler.chunk` and `scheduler.overload`."""

_TOKENS = Field(ge=1, le=1 << 20)
BOUNDS: dict[str, Any] = {
    "budget": _TOKENS,
    "margin": Field(ge=1, le=10),
    "epsilon": Field(gt=0, le=60),
    "quantum": Field(ge=1, le=4096),
    "grid_smallest": _TOKENS,
    "pred_threshold": Field(gt=0, le=10),
    "hybrid": Field(ge=0, le=1000),
    "pressure_cap": _TOKENS,
    "large_prefill": _TOKENS,
}


def options_model(base: type[BaseModel]) -> type[BaseModel]:
    """A model below `base` with a field for each setting that is not configured elsewhere."""
    types = typing.get_type_hints(PolicySettings)
    fields: dict[str, Any] = {
        field.name: (
            _bounded(field.name, types[field.name]),
            Field(field.default, description=_description(field.name, types[field.name])),
        )
        for field in dataclasses.fields(PolicySettings)
        if field.name not in ELSEWHERE
    }
    return create_model("MethodOptions", __base__=base, **fields)


def _bounded(name: str, kind: Any) -> Any:
    """The type with its bounds; choices and truth values are bounds themselves."""
    optional = type(None) in typing.get_args(kind)
    inner = next(part for part in typing.get_args(kind) if part is not type(None)) if optional else kind
    if inner in (int, float):
        inner = Annotated[FiniteFloat if inner is float else int, BOUNDS[name]]
    return inner | None if optional else inner


def _description(name: str, kind: Any) -> str:
    """The setting's own words, without the full stop, and what may be given."""
    said = _docstrings().get(name, "").rstrip(".")
    choices = [str(choice) for choice in typing.get_args(kind) if isinstance(choice, str)]
    if choices:
        return f"{said}: {' or '.join(choices)}"
    if kind is bool:
        return f"{said}: true or false"
    bounds = {type(bound).__name__: bound for bound in BOUNDS[name].metadata}
    low = f"from {bounds['Ge'].ge}" if "Ge" in bounds else f"above {bounds['Gt'].gt}"
    number = "a number" if kind is float else "a whole number"
    null = " or null" if type(None) in typing.get_args(kind) else ""
    return f"{said}: {number} {low} to {bounds['Le'].le}{null}"


@cache
def _docstrings() -> dict[str, str]:
    """The string below each field of `PolicySettings`; none where its source is not installed."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(PolicySettings)))
    except OSError:
        return {}
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
