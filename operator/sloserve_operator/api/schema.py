"""Converter from a pydantic model to a Kubernetes structural schema; used by `crd` only.

One pure pass over pydantic's JSON Schema. Whatever has no structural form (unions, tuples, recursion, `Any`)
is refused with its path, so that the API server never is the first to notice. A free-form object must say so
with `PRESERVE`.
"""

from typing import Any

from pydantic import BaseModel

from .rules import CHANGE, CHANGE_TEXT, PRESERVE, REQUIRED_BY_RULE, VALIDATIONS

KEPT = (
    "description", "type", "default", "enum", "format", "pattern", "minimum", "maximum", "minLength",
    "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", VALIDATIONS,
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", PRESERVE, CHANGE,
)  # fmt: skip
FORBIDDEN = {"oneOf", "allOf", "prefixItems", "not"}


class NotStructuralError(TypeError):
    """A model uses something that a CRD cannot express; the text names the field and what to use instead."""


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """Structural schema of `model`, fields by alias, with our marks of what a change does (see `unmarked`).

    Raises:
        NotStructuralError: for a type without a structural form.
    """
    root = model.model_json_schema(by_alias=True)
    return _convert(root, root.get("$defs", {}), model.__name__, ())


def unmarked(node: dict[str, Any]) -> dict[str, Any]:
    """The schema as the API server takes it: without our marks."""
    out = {key: value for key, value in node.items() if key != CHANGE}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = unmarked(out[key])
    if "properties" in out:
        out["properties"] = {name: unmarked(child) for name, child in out["properties"].items()}
    return out


def _convert(
    node: dict[str, Any], defs: dict[str, Any], path: str, parents: tuple[str, ...]
) -> dict[str, Any]:
    node, parents = _inline(node, defs, path, parents)
    if "anyOf" in node:
        node = _union(node, path)
        return _int_or_string(node) if "anyOf" in node else _convert(node, defs, path, parents)
    if word := FORBIDDEN & node.keys():
        raise NotStructuralError(
            f"{path}: {word} has no structural form; use optional siblings and a CEL rule"
        )
    if "type" not in node:
        raise NotStructuralError(f"{path}: no type; give the field one")
    out = _scalar(node)
    if node["type"] == "object":
        out |= _object(node, defs, path, parents)
    if node["type"] == "array":
        out["items"] = _undefaulted(_convert(node["items"], defs, f"{path}[]", parents))
    return out


def _undefaulted(node: dict[str, Any]) -> dict[str, Any]:
    """An item of a list, without defaults. What compares a list as one value (Argo CD does) would see a
    difference for ever in one that the API server filled in; the description says what holds instead, and
    the models here fill it in."""
    out = {key: value for key, value in node.items() if key != "default"}
    if node.get("default") not in (None, "", [], {}):
        out["description"] = f"{node['description']} {said(node['default'])} if left out."
    if "properties" in out:
        out["properties"] = {name: _undefaulted(child) for name, child in out["properties"].items()}
    return out


def said(default: Any) -> str:
    """A default as it is written in the resource."""
    return str(default).lower() if isinstance(default, bool) else str(default)


def _scalar(node: dict[str, Any]) -> dict[str, Any]:
    """What a node says of itself, in OpenAPI 3.0's words."""
    out = {key: node[key] for key in KEPT if key in node}
    _explain(out)
    if "const" in node:
        out["enum"] = [node["const"]]
    for bound, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if word in node:  # a flag beside the bound
            out[bound], out[word] = node[word], True
    if node["type"] == "integer":
        out["format"] = "int64"
    return out


def _explain(out: dict[str, Any]) -> None:
    """What a change does is part of what `kubectl explain` says."""
    if CHANGE in out:
        out["description"] = f"{out['description']} {CHANGE_TEXT[out[CHANGE]]}"


def _inline(
    node: dict[str, Any], defs: dict[str, Any], path: str, parents: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    if "$ref" not in node:
        return node, parents
    name = node["$ref"].rsplit("/", 1)[-1]
    if name in parents:
        raise NotStructuralError(f"{path}: {name} contains itself; a structural schema is a finite tree")
    beside = {key: value for key, value in node.items() if key != "$ref"}
    merged = {**defs[name], **beside}
    rules = [*defs[name].get(VALIDATIONS, []), *beside.get(VALIDATIONS, [])]
    if rules:
        merged[VALIDATIONS] = rules
    return merged, (*parents, name)


def _union(node: dict[str, Any], path: str) -> dict[str, Any]:
    """`X | None` becomes X; `int | str` stays a union for `_int_or_string`; anything else is refused."""
    options = [option for option in node["anyOf"] if option.get("type") != "null"]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    if rest.get("default", ...) is None:
        del rest["default"]
    if len(options) == 1:
        return {**options[0], **rest}
    if [option.get("type") for option in options] == ["integer", "string"]:
        return {**rest, "anyOf": options}
    raise NotStructuralError(f"{path}: a union has no structural form; use optional siblings and a CEL rule")


def _int_or_string(node: dict[str, Any]) -> dict[str, Any]:
    kept = ("description", "default", "maxLength", VALIDATIONS, CHANGE)
    out = {key: node[key] for key in kept if key in node}
    _explain(out)
    return {**out, "x-kubernetes-int-or-string": True}


def _object(
    node: dict[str, Any], defs: dict[str, Any], path: str, parents: tuple[str, ...]
) -> dict[str, Any]:
    values = node.get("additionalProperties")
    if "properties" not in node:
        if node.get(PRESERVE):
            return {}
        if not isinstance(values, dict):
            raise NotStructuralError(f"{path}: a free-form object; give it fields or typed values")
        return {"additionalProperties": _convert(values, defs, f"{path}.*", parents)}
    out: dict[str, Any] = {"properties": {}}
    required = [
        name for name in node.get("required", []) if not node["properties"][name].get(REQUIRED_BY_RULE)
    ]
    if required:
        out["required"] = required
    for name, child in node["properties"].items():
        converted = _convert(child, defs, f"{path}.{name}", parents)
        # A part with defaults inside gets {} itself, so that they hold when the user leaves it out.
        if (
            converted.get("type") == "object"
            and name not in node.get("required", [])
            and "anyOf" not in child
        ):
            converted.setdefault("default", {})
        out["properties"][name] = converted
    return out
