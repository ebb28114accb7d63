"""What the last lines of a container's log mean. Pure; called by `containers`.

The kubelet keeps them in the pod's status (terminationMessagePolicy: FallbackToLogsOnError). Our engine ends
with one line that begins with the fault (`model not found: ...`); the other words below are those of
huggingface_hub and transformers, for engine images that do not.
"""

import re
from collections.abc import Mapping
from typing import Any

from .api.conditions import Reason

LONGEST = 1000
ERRORS = ("Error", "slidingserve: ")
# The first that fits decides.
MODEL_FAULTS = (
    (Reason.TOKEN_REFUSED, re.compile(r"token refused: |Invalid credentials in Authorization header")),
    (Reason.TOKEN_MISSING, re.compile(r"token missing: ")),
    (Reason.MODEL_NOT_FOUND, re.compile(r"model not found: ")),
    (Reason.HUB_BUSY, re.compile(r"hub busy: ")),
    (Reason.HUB_UNREACHABLE, re.compile(r"hub away: ")),
    (
        Reason.TOKEN_REFUSED,
        re.compile(r"403 Client Error.*(gated|restricted|authorized)", re.DOTALL),
    ),
    (Reason.TOKEN_MISSING, re.compile(r"access a gated repo|Cannot access gated repo|GatedRepoError")),
    (
        Reason.MODEL_NOT_FOUND,
        re.compile(
            r"is not a valid (model|git) identifier|(Repository|Revision)NotFoundError"
            r"|(Repository|Revision) Not Found|401 Unauthorized.*/resolve/"
        ),
    ),
)
REMEDIES = {
    Reason.MODEL_NOT_FOUND: "Correct spec.model.uri or spec.model.revision; of a private model, set"
    " spec.model.tokenSecretRef",
    Reason.TOKEN_MISSING: "Set spec.model.tokenSecretRef to a Secret that holds a token",
    Reason.HUB_BUSY: "The container is started again by itself, later each time; with"
    " spec.storage.modelCache a model that is there whole starts without the hub",
    Reason.HUB_UNREACHABLE: "The container is started again by itself, later each time",
    Reason.TOKEN_REFUSED: "Put a token that may read the model into the Secret of spec.model.tokenSecretRef",
}

# Of a file:/// or pvc:// model: no hub was asked, and no token helps.
LOCAL = "there is no /"
IN_THE_IMAGE = (
    "Correct spec.model.uri, or put the model there: into the image, a claim or spec.podTemplate's volume"
)


def error_line(ended: Mapping[str, Any]) -> str:
    """The last line that names an error, else the last line, else the runtime's one-word reason."""
    lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in ERRORS) or "error:" in line.lower()]
    chosen = (errors or lines)[-1:]
    return (chosen[0] if chosen else str(ended.get("reason", "no message")))[:LONGEST]


def model_fault(ended: Mapping[str, Any]) -> tuple[Reason, str] | None:
    """Reason and sentence if the model could not be had, or None."""
    text = str(ended.get("message") or "")
    for reason, pattern in MODEL_FAULTS:
        if found := pattern.search(text):
            line = text[text.rfind("\n", 0, found.start()) + 1 :].split("\n")[0].strip()
            remedy = IN_THE_IMAGE if reason is Reason.MODEL_NOT_FOUND and LOCAL in line else REMEDIES[reason]
            return reason, f"{line.removeprefix('slidingserve: ')[:LONGEST]}. {remedy}"
    return None
