"""CEL rules of the resource, written beside the fields they guard; `schema` carries them into the CRD.

The API server evaluates them, so pydantic does not repeat them: every message is a sentence that says
what to do, because `kubectl apply` prints it as it is.
"""

from typing import Any

VALIDATIONS = "x-kubernetes-validations"
# Ours, dropped by the converter: the field is mandatory, but a rule with a sentence says so.
REQUIRED_BY_RULE = "x-sloserve-required-by-rule"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
# Ours, read by the reference page; holds for all fields below that have none of their own.
CHANGE = "x-sloserve-change"
CHANGE_TEXT = {
    "hot": "Hot: a change is in force within seconds, without a restart.",
    "scale": "A change adds or removes pods.",
    "restart": "A change restarts the pods.",
    "free": "A change touches no pod.",
    "fixed": "Cannot be changed.",
}
# Labels and annotations that the operator goes by.
RESERVED = ("sloserve.dev/", "app.kubernetes.io/")


def cel(
    rule: str, message: str, *, field_path: str | None = None, reason: str = "FieldValueInvalid"
) -> dict[str, str]:
    """One entry of x-kubernetes-validations; `field_path` is relative to the value it stands on."""
    entry = {"rule": rule, "message": message, "reason": reason}
    if field_path:
        entry["fieldPath"] = field_path
    return entry


def unreserved(field: str) -> dict[str, str]:
    """Rule for a map of labels or annotations: the operator's own keys are not the user's to set."""
    free = " && ".join(f"!key.startsWith('{prefix}')" for prefix in RESERVED)
    prefixes = " or ".join(RESERVED)
    return cel(
        f"self.all(key, {free})",
        f"{field} must not set keys that begin with {prefixes}: the operator finds its objects by them",
    )


LABEL = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"


def label_values(field: str) -> dict[str, str]:
    """Rule for a map of labels: values that Kubernetes takes."""
    return cel(
        f"self.all(key, size(self[key]) <= 63 && self[key].matches('{LABEL}'))",
        f"{field} must hold label values: at most 63 letters, digits and -_. that begin and end with a letter"
        " or digit",
    )


def quantities(field: str) -> dict[str, str]:
    """Rule for a map to quantities."""
    return cel(
        "self.all(key, isQuantity(string(self[key]))"
        " && !quantity(string(self[key])).isLessThan(quantity('0')))",
        f"{field} must hold quantities of 0 or more such as 500m, 2 or 16Gi",
    )


def extra(*rules: dict[str, str], **marks: Any) -> dict[str, Any]:
    """`json_schema_extra` of a model or field: its rules and its list or quantity marks."""
    out: dict[str, Any] = {name.replace("_", "-"): value for name, value in marks.items()}
    if rules:
        out[VALIDATIONS] = list(rules)
    return out
