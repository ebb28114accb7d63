"""The engines' live settings: slidingserve.json in the ConfigMap. Pure; called by `workload`.

`revision` names the content, `generation` the metadata.generation at which that content first appeared. The
second is read back from what was written before, so that scaling or a cold field changes neither.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sloserve_operator.api.resource import SLOServe

from .names import canonical, digest

KEY = "slidingserve.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Written:
    """Label of live settings that were written before."""

    revision: str
    generation: int


def hot(resource: SLOServe) -> dict[str, Any]:
    """The hot part of the spec in the engine's words (limits in milliseconds, share in percent)."""
    spec, scheduler = resource.spec, resource.spec.scheduler
    predictor = scheduler.predictor.model_dump(by_alias=True, exclude_none=True)
    settings: dict[str, Any] = {
        "policy": scheduler.policy,
        "predictor": {name: _plain(value) for name, value in predictor.items()},
        "chunk": {"minTokens": scheduler.chunk.min_tokens, "maxTokens": scheduler.chunk.max_tokens},
    }
    if scheduler.alpha is not None:
        settings["alpha"] = number(scheduler.alpha)
    if scheduler.overload:
        settings["overload"] = {"mode": scheduler.overload.mode}
    if scheduler.options:
        options = scheduler.options.model_dump(by_alias=True, exclude_none=True)
        settings["options"] = {name: _plain(value) for name, value in options.items()}
    classes = [
        {
            "name": slo.name,
            "ttftMilliseconds": number(slo.ttft.milliseconds),
            "ttftSlowdown": number(slo.ttft.slowdown),
            "tbtMilliseconds": number(slo.tbt_milliseconds),
            "objectivePercent": number(slo.objective_percent),
            "safeguard": slo.safeguard,
        }
        for slo in spec.slo_classes
    ]
    return {
        "classes": classes,
        "defaultClass": spec.default_class or spec.slo_classes[0].name,
        "scheduler": settings,
    }


def number(value: float | None) -> float | int | None:
    """40.0 as 40, so that the text does not depend on how a number was parsed."""
    return int(value) if value is not None and float(value).is_integer() else value


def _plain(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value


def document(resource: SLOServe, before: Iterable[Written]) -> dict[str, Any]:
    """slidingserve.json of the resource; `before` are the labels known from the ConfigMap and the status."""
    settings = hot(resource)
    revision = digest(settings)
    known = [written.generation for written in before if written.revision == revision]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "revision": revision,
        "generation": known[0] if known else resource.generation,
        **settings,
    }


def text(document: Mapping[str, Any]) -> str:
    """The file as it is mounted: one line of canonical JSON."""
    return canonical(document) + "\n"


def written(config_map: Mapping[str, Any] | None) -> Written | None:
    """Label read back from a live ConfigMap; None if there is none or it is not ours to understand."""
    try:
        content = json.loads(((config_map or {}).get("data") or {})[KEY])
        label = Written(str(content["revision"]), int(content["generation"]))
    except (KeyError, TypeError, ValueError):
        return None
    # Content that someone changed under its label is not that content.
    body = {key: content.get(key) for key in ("classes", "defaultClass", "scheduler")}
    return label if digest(body) == label.revision else None
