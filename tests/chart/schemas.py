"""Strict JSON Schemas for kubeconform, out of what a real API server says of itself.

Kubernetes' OpenAPI tolerates unknown fields; here an object that lists its fields has no others, so that a
misspelt one in a template is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DEFINITIONS = "definitions.json"
QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}


def write(directory: Path, openapi: dict[str, Any], crds: Iterable[dict[str, Any]] = ()) -> str:
    """Write a schema per kind below `directory`; returns kubeconform's -schema-location for them.

    `openapi`: the server's /openapi/v2. `crds`: definitions that it does not serve, from their files.
    """
    definitions = openapi["definitions"]
    for schema in definitions.values():
        _strict(schema)
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = QUANTITY
    definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = INT_OR_STRING
    (directory / DEFINITIONS).write_text(json.dumps({"definitions": definitions}))
    for name, schema in definitions.items():
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        if len(kinds) == 1:  # more: an object of any group, such as DeleteOptions
            _save(directory, kinds[0], {"$ref": f"{DEFINITIONS}#/definitions/{name}"})
    for crd in crds:
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object"}
            _strict(schema)
            kind = {
                "group": crd["spec"]["group"],
                "version": version["name"],
                "kind": crd["spec"]["names"]["kind"],
            }
            _save(directory, kind, schema)
    return f"{directory}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _save(directory: Path, kind: dict[str, str], schema: dict[str, Any]) -> None:
    """Under the name that kubeconform looks for: kind, first label of the group, version."""
    parts = (kind["kind"].lower(), kind["group"].split(".")[0], kind["version"])
    (directory / ("-".join(part for part in parts if part) + ".json")).write_text(json.dumps(schema))


def _strict(schema: Any) -> None:
    """Close objects, point references at the definitions' file, give int-or-string two types. In place."""
    if isinstance(schema, list):
        for inner in schema:
            _strict(inner)
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        schema["$ref"] = schema["$ref"].replace("#/definitions/", f"{DEFINITIONS}#/definitions/")
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        for key in ("type", "format", "anyOf"):
            schema.pop(key, None)
        schema |= INT_OR_STRING
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for key, inner in schema.items():
        # The map of properties is no schema itself: a property may be *named* $ref, format or properties.
        for part in inner.values() if key == "properties" else [inner]:
            _strict(part)
