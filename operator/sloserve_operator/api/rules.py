"""CEL rules of the resource, written beside the fields they guard; `schema` carries them into the CRD.

The API server evaluates them, so pydantic does not repeat them: every message is a sentence that says
what to do, because `kubectl apply` prints it as it is.
"""

from typing import Any

VALIDATIONS = "x-kubernetes-validations"
# Ours, dropped by the converter: the field is mandatory, but a rule with a sentence says so.
REQUIRED_BY_RULE = "x-sloserve-required-by-rule"
# Ours, read by the reference page: hot | scale | restart.
CHANGE = "x-sloserve-change"
CHANGE_TEXT = {
    "hot": "Hot: a change is in force within seconds, without a restart.",
    "scale": "A change adds or removes pods.",
    "restart": "A change restarts the pods.",
}


def cel(
    rule: str, message: str, *, field_path: str | None = None, reason: str = "FieldValueInvalid"
) -> dict[str, str]:
    """One entry of x-kubernetes-validations; `field_path` is relative to the value it stands on."""
    entry = {"rule": rule, "message": message, "reason": reason}
    if field_path:
        entry["fieldPath"] = field_path
    return entry


def extra(*rules: dict[str, str], **marks: Any) -> dict[str, Any]:
    """`json_schema_extra` of a model or field: its rules and its list or quantity marks."""
    out: dict[str, Any] = {name.replace("_", "-"): value for name, value in marks.items()}
    if rules:
        out[VALIDATIONS] = list(rules)
    return out
