"""What a model hub's refusal means, as one line for whoever reads a pod's status. Called by `failure`.

vLLM and transformers wrap the hub's answer in sentences that hide it ("a specific connection error"). The
answer itself is still in the chain of causes, with the request that it was given to. The first words of a
line (`MODEL`, `MISSING`, `REFUSED`, `BUSY`, `AWAY`) are part of the contract with the operator, which makes
them the reason of the resource's condition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MODEL = "model not found"
MISSING = "token missing"
REFUSED = "token refused"
BUSY = "hub busy"
AWAY = "hub away"
OFFLINE = "HF_HUB_OFFLINE"
_URL = re.compile(r"^(https?://[^/]+)/(?:api/models/)?([^/?]+/[^/?]+)")
_BASE = re.compile(r"^https?://[^/]+")
_LIMIT = re.compile(r";\s*r=0\s*;\s*t=(\d+)")
# Errors without an answer, of the HTTP clients that huggingface_hub has used; by name, as it brings its own.
_CLIENTS = ("httpx", "httpx2", "httpcore", "requests", "urllib3")
_BROKE_OFF = ("RemoteProtocolError", "ReadError", "ReadTimeout", "ChunkedEncodingError", "IncompleteRead")
_UNREACHED = ("ConnectError", "ConnectTimeout", "ConnectionError", "ProxyError", "PoolTimeout")
_NOT_CACHED = ("LocalEntryNotFoundError", "OfflineModeIsEnabled")


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
        if status == 429 or status >= 500:
            return _busy(response)
        if text := _unanswered(cause):
            return text
    if offline() and any(type(cause).__name__ in _NOT_CACHED for cause in _chain(error)):
        return f"{MODEL}: {OFFLINE} is set, and the cache lacks files of {model}; unset it, or fill the cache"
    if model.startswith("/") and not Path(model).exists():
        return f"{MODEL}: there is no {model} in this container; correct the path, or mount what holds it"
    return ""


def seconds_to_wait(headers: Mapping[str, str]) -> int:
    """How long an answer asks to be left alone, in seconds; 0 if it does not say."""
    limit = _LIMIT.search(headers.get("RateLimit", ""))
    asked = headers.get("Retry-After", "").strip()
    return max(int(asked) if asked.isdecimal() else 0, int(limit[1]) if limit else 0)


def refusal_to_wait_for(error: BaseException) -> int:
    """The same of the answer that `error` came of."""
    answers = (getattr(cause, "response", None) for cause in _chain(error))
    return next((seconds_to_wait(answer.headers) for answer in answers if answer is not None), 0)


def _busy(response: Any) -> str:
    seconds = seconds_to_wait(response.headers)
    again = f"again in {seconds} s" if seconds else "again when this container starts anew"
    answered = f"{response.status_code} {response.reason_phrase}".strip()
    return f"{BUSY}: {_base(response)} answered {answered}; {again}"


def _unanswered(cause: BaseException) -> str:
    """The line of an error of the HTTP client itself, or ""."""
    kind = type(cause)
    if kind.__module__.partition(".")[0] not in _CLIENTS:
        return ""
    if kind.__name__ in _BROKE_OFF:
        return f"{BUSY}: {_base(cause)} broke off ({cause}); again when this container starts anew"
    if kind.__name__ in _UNREACHED:
        remedy = "look at the network, its proxy and HF_ENDPOINT"
        return f"{AWAY}: {_base(cause)} cannot be reached ({cause}); {remedy}"
    return ""


def _base(asked: Any) -> str:
    """The hub that an answer or an error came of."""
    try:
        found = _BASE.match(str(asked.request.url))
    except (AttributeError, RuntimeError):  # an error that knows no request
        found = None
    return found[0] if found else os.environ.get("HF_ENDPOINT", "the hub")


def offline() -> bool:
    """Whether huggingface_hub is told to ask nobody."""
    return os.environ.get(OFFLINE, "").upper() in ("1", "ON", "YES", "TRUE")


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
