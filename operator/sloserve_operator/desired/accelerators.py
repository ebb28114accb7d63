"""Accelerators of the engine's container, by count or by resource claims, whatever a podTemplate says of
them. Pure; used by `pod`."""

from collections.abc import Mapping
from typing import Any

from sloserve_operator.api.resource import Object
from sloserve_operator.api.spec_engine import Engine


def resources(engine: Engine) -> Object:
    """The user's CPU and memory, and as many accelerators as ranks (limits imply equal requests)."""
    given = engine.resources
    out: dict[str, Any] = {}
    if given and given.requests:
        out["requests"] = {key: str(value) for key, value in given.requests.items()}
    if given and given.limits:
        out["limits"] = {key: str(value) for key, value in given.limits.items()}
    if engine.device:
        out.setdefault("limits", {})[engine.device] = str(engine.ranks)
    if engine.resource_claims:
        out["claims"] = _of_container(engine)
    return out


def pod_claims(engine: Engine) -> list[Object]:
    """`resourceClaims` of the pod."""
    given = [claim.model_dump(by_alias=True, exclude_none=True) for claim in engine.resource_claims]
    return [{k: v for k, v in claim.items() if k not in ("request", "count")} for claim in given]


def held(merged: Any, engine: Engine) -> Object:
    """`resources` of a container after the merge, with our accelerators as they were and no more of them."""
    out = dict(as_map(merged))
    if device := engine.device:
        requests = {k: v for k, v in as_map(out.pop("requests", None)).items() if k != device}
        limits = {**as_map(out.pop("limits", None)), device: str(engine.ranks)}
        out |= {"limits": limits, **({"requests": requests} if requests else {})}
    if engine.resource_claims:
        ours = _of_container(engine)
        names = {claim["name"] for claim in ours}
        theirs = [claim for claim in _as_list(out.get("claims")) if as_map(claim).get("name") not in names]
        out["claims"] = [*ours, *theirs]
    return out


def held_claims(merged: Any, engine: Engine) -> list[Any]:
    """`resourceClaims` of a pod after the merge, with ours as they were."""
    ours = {claim["name"]: claim for claim in pod_claims(engine)}
    theirs = [claim for claim in _as_list(merged) if as_map(claim).get("name") not in ours]
    return [*ours.values(), *theirs]


def as_map(value: Any) -> Mapping[str, Any]:
    """The value if it is a map, else an empty one: nonsense is for the API server to refuse."""
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _of_container(engine: Engine) -> list[Object]:
    return [
        {"name": claim.name, **({"request": claim.request} if claim.request else {})}
        for claim in engine.resource_claims
    ]
