"""The figures of a status: attainment by class, the predictor's accuracy. Pure; for `status`.

They move with every request, so `reconcile` writes them once a minute at most: `settled` is a status without
them, and what it holds is written at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .api.engine import EngineState, Quality
from .api.resource import Object
from .attainment import Figure, overall
from .view import Observed, PodView

MOVING = ("attainment", "overallAttainment", "predictor")
STILL_CLASS = {"attainment": "", "requests": 0}
STILL_POD = {"predictor": ""}


def attainment_fields(found: Sequence[Figure]) -> Object:
    """Fields of the status; none while no class has had a request."""
    out: Object = {"sloClasses": [_of_class(figure) for figure in found]} if found else {}
    seen = [figure for figure in found if figure.count]
    if seen:
        out["overallAttainment"] = overall(seen)
        out["attainment"] = ", ".join(f"{f.slo.name} {f.percent} (n={f.count})" for f in seen)
    return out


def _of_class(figure: Figure) -> Object:
    out: Object = {"name": figure.slo.name, "met": figure.met, "requests": figure.count}
    out["objective"] = f"{figure.slo.objective_percent:.10g} %"
    if figure.count:
        out["attainment"] = figure.percent
    return out


def predictor_of(state: EngineState) -> str:
    """How far one engine's predictions were off; "" while it has said nothing of them."""
    said = state.predictor
    if said is None:
        return ""
    if said.overall is None or not said.overall.samples:
        return "calibrated, no batch yet" if said.calibrated else "not calibrated"
    quality = said.overall
    text = f"{_percent(quality.mae_share)} off, {_percent(quality.under_share)} under (n={quality.samples})"
    return text if said.calibrated else f"not calibrated, {text}"


def predictor_fields(observed: Observed) -> Object:
    """Mean over the pods, by their batches."""
    found = [q for pod in observed.pods if (q := _quality(pod)) and q.samples]
    if not found:
        return {}
    count = sum(quality.samples for quality in found)
    off = sum(q.mae_share * q.samples for q in found) / count
    under = sum(q.under_share * q.samples for q in found) / count
    return {"predictor": f"{_percent(off)} off, {_percent(under)} under"}


def _quality(pod: PodView) -> Quality | None:
    return pod.state.predictor.overall if pod.state and pod.state.predictor else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def settled(status: Mapping[str, Any]) -> Object:
    """The status without figures that move, and without sentences that name them."""
    out = {key: value for key, value in status.items() if key not in MOVING}
    for name, still in (("sloClasses", STILL_CLASS), ("pods", STILL_POD)):
        if name in out:
            out[name] = [{**item, **still} for item in out[name]]
    out["conditions"] = [
        {**c, "message": ""} if c["type"] == "SLOMet" else c for c in status.get("conditions") or []
    ]
    return out
