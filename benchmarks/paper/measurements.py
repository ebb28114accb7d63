"""Experiments into measurements: one policy, one setting, one seed, one fit each; equal ones are made once.

Pure. A measurement holds all that decides its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from benchmarks.paper.experiments import Experiment, Fidelity, Load, Search, Where
from benchmarks.paper.options import Options
from benchmarks.paper.plan import Scale

ONE_CLASS = ("sharegpt", "arxiv_v1", "arxiv_v2")
"""Workloads for which the two criteria are one."""


@dataclass(frozen=True)
class Measurement:
    """One simulation or one search."""

    kind: Literal["goodput", "load", "errors"]
    where: Where
    policy: str
    setting: Options
    seed: int
    fit: int | None
    requests: int
    qps: float | None = None
    """Rate of a load; None for the switching one, and for a search."""
    criterion: str = "overall"
    tolerance: float = 0.0
    """Relative width at which a search ends."""


@dataclass(frozen=True)
class Asked:
    """A measurement and the row fields of the experiment that asked for it."""

    measurement: Measurement
    label: Mapping[str, Any]


Choices = Mapping[tuple[str, str, str, str], Options]
"""The chosen setting by model, workload, policy and criterion."""


def asked(experiment: Experiment, chosen: Choices, scale: Scale) -> list[Asked]:
    """A measurement for each draw of the experiment."""
    setting = _setting(experiment, chosen)
    return [
        Asked(_measurement(experiment, setting, seed, fit, scale), _label(experiment, setting, seed, fit))
        for seed, fit in experiment.draws
    ]


def _setting(experiment: Experiment, chosen: Choices) -> Options:
    """The fixed or chosen setting with the experiment's change; the defaults where nothing was chosen."""
    where, criterion = experiment.where, "overall"
    base: Options = ()
    if isinstance(experiment, Search):
        criterion = experiment.criterion
    if isinstance(experiment, Search) and experiment.setting is not None:
        base = experiment.setting
    elif not isinstance(experiment, Fidelity):
        base = chosen.get((where.model, where.workload, experiment.policy, criterion), ())
    return tuple(sorted({**dict(base), **dict(experiment.change)}.items()))


def _measurement(
    experiment: Experiment, setting: Options, seed: int, fit: int | None, scale: Scale
) -> Measurement:
    where, policy = experiment.where, experiment.policy
    if isinstance(experiment, Search):
        choosing = experiment.stage == "choose"
        return Measurement(
            *("goodput", where, policy, setting, seed, fit),
            requests=scale.choice_requests if choosing else scale.requests,
            criterion="overall" if where.workload in ONE_CLASS else experiment.criterion,
            tolerance=scale.choice_tolerance if choosing else scale.tolerance,
        )
    kind: Literal["load", "errors"] = "load" if isinstance(experiment, Load) else "errors"
    return Measurement(kind, where, policy, setting, seed, fit, scale.requests, experiment.qps)


def _label(experiment: Experiment, setting: Options, seed: int, fit: int | None) -> dict[str, Any]:
    where = experiment.where
    label = {
        "figure": experiment.figure,
        "model": where.model,
        "hardware": where.hardware,
        "workload": where.workload,
        "policy": experiment.policy,
        "options": dict(setting),
        "seed": seed,
        "fit": fit,
        "criterion": experiment.criterion if isinstance(experiment, Search) else "overall",
    }
    if isinstance(experiment, Search):
        label["stage"] = experiment.stage
    if not isinstance(experiment, Fidelity):
        label["variant"] = experiment.variant
    if isinstance(experiment, Load) and experiment.qps is not None:
        label["qps"] = experiment.qps
    return label


def choose(found: Iterable[tuple[Asked, float]]) -> dict[tuple[str, str, str, str], Options]:
    """The setting with the highest median goodput over the choosing fits; of equals the one listed first."""
    values: dict[tuple[str, str, str, str], dict[Options, list[float]]] = {}
    for one, goodput in found:
        label = one.label
        key = (label["model"], label["workload"], label["policy"], label["criterion"])
        values.setdefault(key, {}).setdefault(one.measurement.setting, []).append(goodput)
    return {key: max(settings, key=lambda s: median(settings[s])) for key, settings in values.items()}


def unique(found: Sequence[Asked]) -> list[Measurement]:
    """What must be measured, each once, in order."""
    return list(dict.fromkeys(one.measurement for one in found))
