"""One request of a snapshot, and the JSON form of a snapshot with its bounds.

A recorded state goes through here into `Snapshot.from_json` (POST /slidingserve/v1/plan): whatever a person
sends is either a snapshot that the method can plan, or one sentence that says what to mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

MAX_REQUESTS = 1024
_MAX_TOKENS = 1 << 30
_MAX_REQUEST_TOKENS = 1 << 24  # squares of it, summed over all requests, stay whole numbers
_MAX_SECONDS = 1e12


class Phase(IntEnum):
    """Where a request stands. The last token of a chunked prompt is PREFILL: the phase decides, no count."""

    WAITING = 0
    """Not admitted yet, or preempted: holds no KV cache."""
    PREFILL = 1
    """Admitted; some of its prompt (after a preemption: of prompt and output) is still to be computed."""
    DECODE = 2
    """Computes one token a step."""


class Row(NamedTuple):
    """One request, as `Snapshot.from_rows` takes it; the fields are the columns of `Snapshot`."""

    id: str
    phase: int
    arrival: float
    prefill_tokens: int
    computed_tokens: int
    output_tokens: int
    ttft_limit: float
    tbt_limit: float
    safeguard: bool = False
    relegated: bool = False


class _Bound(NamedTuple):
    low: float
    high: float
    whole: bool
    default: float | None = None


_SECONDS = _Bound(-_MAX_SECONDS, _MAX_SECONDS, whole=False)
_LIMIT = _Bound(1e-6, 1e9, whole=False)
_COUNT = _Bound(0, _MAX_TOKENS, whole=True)
_TOKENS = _Bound(0, _MAX_REQUEST_TOKENS, whole=True)
_ENGINE = {
    "now": _SECONDS,
    "max_tokens": _COUNT._replace(low=1),
    "max_admissions": _COUNT._replace(default=_MAX_TOKENS),
    "free_kv_tokens": _COUNT._replace(default=_MAX_TOKENS),
    "throughput": _Bound(0, 1e9, whole=False, default=0.0),
}
_REQUEST = {
    "arrival": _SECONDS,
    "prefill_tokens": _TOKENS._replace(low=1),
    "computed_tokens": _TOKENS._replace(default=0),
    "output_tokens": _TOKENS._replace(default=0),
    "ttft_limit": _LIMIT,
    "tbt_limit": _LIMIT,
}
_PHASES = {phase.name.lower(): phase for phase in Phase}


def row_document(row: Row) -> dict[str, Any]:
    """One request as a JSON object: the fields of `Row`, the phase by name."""
    return {**row._asdict(), "phase": Phase(row.phase).name.lower()}


def parse_document(document: object) -> tuple[list[Row], dict[str, Any]]:
    """A JSON object into rows and the keyword arguments of `Snapshot.from_rows`.

    Raises ValueError with field, value and remedy for anything missing, unknown, of the wrong type, out of
    bounds, twice there, or too much.
    """
    top = _object(document, "snapshot", {*_ENGINE, "requests"})
    engine = {name: _number(top, name, bound, name) for name, bound in _ENGINE.items()}
    requests = top.get("requests")
    if not isinstance(requests, list):
        raise ValueError(f"requests: {_show(requests)} is not a list; give a list of request objects")
    if len(requests) > MAX_REQUESTS:
        raise ValueError(f"requests: {len(requests)} are too many; send at most {MAX_REQUESTS}")
    rows = [_row(item, f"requests[{i}]") for i, item in enumerate(requests)]
    seen: set[str] = set()
    for i, row in enumerate(rows):
        if row.id in seen:
            raise ValueError(
                f"requests[{i}].id: {_show(row.id)} is there twice; give each request its own id"
            )
        seen.add(row.id)
    return rows, engine


def _row(item: object, path: str) -> Row:
    fields = _object(item, path, set(Row._fields))
    name = fields.get("id")
    if not isinstance(name, str) or not 1 <= len(name) <= 256:
        raise ValueError(f"{path}.id: {_show(name)} is no id; give a string of 1 to 256 characters")
    phase = fields.get("phase")
    if not isinstance(phase, str) or phase not in _PHASES:
        raise ValueError(f"{path}.phase: {_show(phase)} is no phase; choose one of {', '.join(_PHASES)}")
    flags = {key: _flag(fields, key, path) for key in ("safeguard", "relegated")}
    numbers: dict[str, Any] = {
        key: _number(fields, key, bound, f"{path}.{key}") for key, bound in _REQUEST.items()
    }
    row = Row(id=name, phase=_PHASES[phase], **flags, **numbers)
    if row.phase != Phase.DECODE and row.computed_tokens >= row.prefill_tokens:
        raise ValueError(
            f"{path}.computed_tokens: {row.computed_tokens} leaves nothing of {row.prefill_tokens} tokens to "
            "prefill; give fewer, or phase decode"
        )
    return row


def _object(value: object, path: str, known: set[str]) -> Mapping[str, object]:
    fields = ", ".join(sorted(known))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {_show(value)} is not a JSON object; give one with {fields}")
    for name in value:
        if name not in known:
            raise ValueError(f"{path}: {_show(name)} is not a field of it; the fields are {fields}")
    return value


def _flag(fields: Mapping[str, object], key: str, path: str) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{path}.{key}: {_show(value)} is no truth value; give true or false")
    return value


def _number(fields: Mapping[str, object], key: str, bound: _Bound, path: str) -> float | int:
    value = fields.get(key, bound.default)
    remedy = f"give a {'whole ' if bound.whole else ''}number from {bound.low:g} to {bound.high:g}"
    if value is None:
        raise ValueError(f"{path}: it is missing; {remedy}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{path}: {_show(value)} is not a number; {remedy}")
    if not bound.low <= value <= bound.high or (bound.whole and value != int(value)):
        raise ValueError(f"{path}: {_show(value)} is out of bounds; {remedy}")
    return int(value) if bound.whole else float(value)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
