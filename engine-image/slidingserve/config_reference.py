"""docs/reference/config.md: every key of slidingserve.json, from the models that read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from slidingserve.config import EngineConfig

HEAD = """# slidingserve.json

<!-- Generated from slidingserve/config.py and core/settings.py by `make generate`; edit those. -->

What `slidingserve serve --slo-config DIR` reads from `DIR/slidingserve.json`, live: a change is in force
between two steps, a file that is refused leaves the last good one in force, and the state endpoint says why
(at the start there is none: [what then](engine.md)).
The operator writes it from the resource. Keys that this version does not know are reported and ignored. What
the options mean for the method, and what each does to the numbers, is in [the method](../method.md).

| key | default | meaning and what may be given |
| --- | --- | --- |
"""


def config_page() -> str:
    """The page."""
    return HEAD + "\n".join(_rows(EngineConfig, "")) + "\n"


def _rows(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        key = f"{path}{info.alias or name}"
        inner = _inner(info.annotation)
        if inner is None:
            meaning = (info.description or "").replace("|", "\\|")
            yield f"| `{key}` | {_default(info)} | {meaning} |"
        else:
            listed = not isinstance(info.annotation, type)
            if listed:
                yield f"| `{key}` | {_default(info)} | {info.description} |"
            yield from _rows(inner, f"{key}[]." if listed else f"{key}.")


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner, get_args(annotation))), None)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be there"
    return f"`{json.dumps(info.default)}`"
