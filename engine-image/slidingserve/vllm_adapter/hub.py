"""What a model hub's refusal means, as one line for whoever reads a pod's status. Called by `failure`.

vLLM and transformers wrap the hub's answer in sentences that hide it ("a specific connection error"). The
answer itself is still in the chain of causes, with the request that it was given to. The first words of a
line (`MODEL`, `MISSING`, `REFUSED`) are part of the contract with the operator, which makes them the reason
of the resource's condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODEL = "model not found"
MISSING = "token missing"
REFUSED = "token refused"
_URL = re.compile(r"^(https?://[^/]+)/(?:api/models/)?([^/?]+/[^/?]+)")


def explain(error: BaseException, model: str = "") -> str:
    """One line if `error` comes of a hub that refused, or of a model that is not there; else "".

    `model`: as it was asked for, if known.
    """
    for cause in _chain(error):
        response: Any = getattr(cause, "response", None)
        status = getattr(response, "status_code", 0)
        if status in (401, 403, 404):
            found = _URL.match(str(response.request.url))
            hub, repository = found.groups() if found else ("the hub", model)
            return _refusal(type(cause).__name__, response, hub, repository)
    if model.startswith("/") and not Path(model).exists():
        return f"{MODEL}: there is no {model} in this container; correct the path, or mount what holds it"
    return ""


def _refusal(kind: str, response: Any, hub: str, model: str) -> str:
    said = response.headers.get("X-Error-Message") or response.reason_phrase
    told = f"({response.status_code}: {said})"
    with_token = "authorization" in response.request.headers
    if response.status_code == 401 and with_token:
        return f"{REFUSED}: {hub} does not know the token {told}; give one that is valid (HF_TOKEN)"
    if kind == "GatedRepoError" or response.status_code == 403:
        if with_token:
            remedy = "ask for access with its account"
            return f"{REFUSED}: {model} on {hub} is not open to this token {told}; {remedy}"
        return f"{MISSING}: {model} on {hub} is gated {told}; give a token that may read it (HF_TOKEN)"
    if kind == "RevisionNotFoundError":
        return f"{MODEL}: {model} on {hub} has no such revision {told}; correct --revision"
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        return f"{MODEL}: {model} on {hub} lacks a file {told}: {response.request.url}"
    hidden = "its account may not see it" if with_token else "it is private: then give a token (HF_TOKEN)"
    return f"{MODEL}: {hub} shows no {model} {told}; correct the name, unless {hidden}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came of, as a traceback shows them."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
