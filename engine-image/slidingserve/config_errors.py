"""pydantic's errors as sentences: field, value, remedy. The remedy is the field's own description."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def sentences(error: ValidationError, model: type[BaseModel], whole: str) -> str:
    """All that `error` says about a document of `model`, a sentence a problem; `whole` names the document."""
    problems = [item for item in error.errors(include_url=False) if not _follows(item)]
    return "; ".join(_sentence(item, model, whole) for item in problems)


def _follows(item: ErrorDetails) -> bool:
    """A list "too short" only because its items were refused: those have their own sentences."""
    return item["type"] == "too_short" and bool(item["input"])


def _sentence(item: ErrorDetails, model: type[BaseModel], whole: str) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{cut(step)}" for step in item["loc"])
    path = "".join(steps).lstrip(".")
    if item["type"] == "value_error":
        return f"{path}: {item['ctx']['error']}" if path else str(item["ctx"]["error"])
    if item["type"] == "json_invalid":
        return f"{whole}: it is not JSON ({item['ctx']['error']}); write one JSON object"
    expected = description(model, item["loc"])
    remedy = f"; expected: {expected}" if expected else ""
    if item["type"] == "missing":
        return f"{path}: it is missing{remedy}"
    problem = item["msg"].replace("Input should", "should")
    for noun in ("Tuple should", "String should", "List should"):
        problem = problem.replace(noun, "should")
    return f"{path or whole}: {_show(item['input'])} {problem}{remedy}"


def description(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """The description of the field at a path of aliases and indices; empty for a path that leads nowhere."""
    inner: type[BaseModel] | None = model
    found = ""
    for step in location:
        if isinstance(step, int):
            continue
        fields = {info.alias or name: info for name, info in (inner.model_fields if inner else {}).items()}
        if step not in fields:
            return ""
        found = fields[step].description or ""
        inner = _model_in(fields[step].annotation)
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def cut(text: str, length: int = 60) -> str:
    """A text for an error's sentence, which must not be as long as whatever was sent."""
    return text if len(text) <= length else text[: length - 3] + "..."


def _show(value: object) -> str:
    try:
        return cut(json.dumps(value, default=str))
    except (ValueError, RecursionError):  # more digits, or deeper, than Python writes
        return "what is there"
