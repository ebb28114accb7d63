"""`spec.scheduler.options`, made from the engine's own schema of them; used by `spec_slo`.

`make generate` copies that schema beside this file, so no option can be forgotten, and none is offered that
an engine would ignore. An option that is left out is not written, so that the engine's default holds.
"""

import json
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from .base import Model

FILE = "scheduler_options.json"
BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
TYPES: dict[str, type] = {"boolean": bool, "integer": int, "number": float}


def options_model() -> type[BaseModel]:
    """A model with one optional field for each option."""
    schema = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    fields: dict[str, Any] = {name: _field(node) for name, node in schema["properties"].items()}
    return create_model("Options", __base__=Model, **fields)


def _field(node: dict[str, Any]) -> tuple[Any, Any]:
    default = node.get("default")
    # `null` is the absence of the field here.
    inner = next((part for part in node.get("anyOf", []) if part.get("type") != "null"), node)
    kind: Any = Literal[tuple(inner["enum"])] if "enum" in inner else TYPES[inner["type"]]
    bounds = {word: inner[bound] for bound, word in BOUNDS.items() if bound in inner}
    said = str(node["description"]).removesuffix(" or null")
    if default is not None:
        said += f"; by default {str(default).lower() if isinstance(default, bool) else default}"
    return kind | None, Field(default=None, description=f"{said}.", **bounds)
