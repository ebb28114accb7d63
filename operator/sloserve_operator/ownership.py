"""Whose an object is, and who holds or writes it beside us. Pure; used by `children`."""

from typing import Any

from .api.conditions import Reason
from .api.resource import Object, SLOServe, controller_of
from .desired.names import APPLIED_HASH, MANAGED_BY, MANAGER, NAME_LABEL
from .status import Problem


def made_by_us(resource: SLOServe, live: Object) -> bool:
    """Whether an object without a controller bears all that we leave on a child of this resource: its labels,
    our hash, and our name among those that wrote its fields. Nobody gets these by accident."""
    meta = live["metadata"]
    labels = meta.get("labels") or {}
    return (
        controller_of(live) is None
        and labels.get(MANAGED_BY) == MANAGER
        and labels.get(NAME_LABEL) == resource.name
        and APPLIED_HASH in (meta.get("annotations") or {})
        and any(entry.get("manager") == MANAGER for entry in meta.get("managedFields") or [])
    )


def held_back(live: Object) -> Problem:
    """A child of ours that somebody deletes and that is not gone yet."""
    kind, meta = live["kind"], live["metadata"]
    holders = ", ".join(meta.get("finalizers") or []) or "its grace period"
    text = f"{kind} {meta['name']} is being deleted and held by {holders}; it is made anew when it is gone"
    return Problem(Reason.WAITING_FOR_CLEANUP, text)


def foreign(resource: SLOServe, live: Object) -> Problem | None:
    """A problem if the live object is controlled by somebody else or by nobody."""
    owner = controller_of(live) or {}
    if owner.get("uid") == resource.uid:
        return None
    kind, name = live["kind"], live["metadata"]["name"]
    if owner.get("kind") == "SLOServe" and owner.get("name") == resource.name:
        text = f"{kind} {name} belongs to a deleted SLOServe of the same name and is about to be removed"
        return Problem(Reason.WAITING_FOR_CLEANUP, text)
    whose = f"is controlled by {owner['kind']} {owner['name']}" if owner else "was not made by this resource"
    text = f"{kind} {name} exists and {whose}; it is left untouched: delete it, or rename this SLOServe"
    return Problem(Reason.NAME_COLLISION, text)


def last_writer(entries: list[dict[str, Any]]) -> str:
    """Who but us wrote an object last, by its managedFields."""
    # Controllers write the status of what they look after, which undoes nothing.
    others = [e for e in entries if e.get("manager") != MANAGER and not e.get("subresource")]
    if not others:
        return "an admission policy (no other field manager is known)"
    last = max(others, key=lambda entry: str(entry.get("time") or ""))
    return f"field manager {last.get('manager')!r} ({last.get('operation')} at {last.get('time')})"
