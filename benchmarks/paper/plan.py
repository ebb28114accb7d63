"""What `make bench-paper` measures: a pure list of experiments, no simulation.

Settings are chosen on a seed that serves for nothing else (`choices`); every other experiment takes the
setting chosen for its model, workload, policy and criterion, with `change` on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slidingserve.report import paper

from benchmarks.paper.experiments import CRITERIA, Criterion, Draws, Experiment, Fidelity, Load, Search, Where
from benchmarks.paper.options import (
    ABLATIONS,
    POLICIES,
    PREDICTING,
    READINGS,
    SETTINGS,
    SLIDING,
    Options,
    options,
)

QOSERVE_CAPS = (None, 512)
"""Of the artifact's grid, beside the chosen setting."""
ALPHAS: dict[str, tuple[float, ...]] = {
    "sarathi_edf": (),
    "qoserve": (0.4, 0.8, 1.6),
    SLIDING: (0.3, 0.4, 0.8, 1.5),
}
"""In place of the chosen one."""
CHUNK_CAPS = (512, 256)
"""For the ablation without the BatchConstructor, which protects first tokens from long steps."""
CHOICE_SEED, CHOICE_FITS = 100, (101, 102)


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    requests: int = 2000
    choice_requests: int = 1000
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    fits: tuple[int, ...] = (1, 2, 3, 4, 5)
    choice_fits: tuple[int, ...] = CHOICE_FITS
    models: tuple[str, ...] = (paper.QWEN, paper.LLAMA)
    workloads: tuple[str, ...] = paper.WORKLOADS
    settings: int | None = None
    """At most so many settings a policy; None: all."""
    side_seeds: int = 3
    """Draws of a point of Figure 5, of an SLO base, of an explanation."""
    load_factors: tuple[float, ...] = (0.6, 0.8, 1.0, 1.25, 1.6, 2.0)
    """Figure 5's rates, as multiples of the paper's goodput of SlidingServe."""
    slo_bases_ms: tuple[float, ...] = (0.0, 20.0, 40.0, 60.0, 100.0, 200.0)
    tolerance: float = 0.02
    choice_tolerance: float = 0.04
    side_experiments: bool = True
    """Readings, SLO bases and explanations as well."""
    quick: bool = False


FULL = Scale()
QUICK = Scale(
    requests=300,
    choice_requests=150,
    seeds=(1, 2),
    fits=(1, 2),
    choice_fits=CHOICE_FITS[:1],
    models=(paper.QWEN,),
    workloads=("sharegpt", "mixed_v1"),
    settings=2,
    load_factors=(0.8, 1.4),
    slo_bases_ms=(60.0,),
    tolerance=0.1,
    choice_tolerance=0.2,
    side_experiments=False,
    quick=True,
)


def here(model: str, workload: str) -> Where:
    """The headline's conditions."""
    return Where(model, f"rtx3090-tp2-{model}", workload)


def draws(policy: str, seeds: tuple[int, ...], fits: tuple[int, ...]) -> Draws:
    """Seeds and fits of a policy: a fit a seed for those that predict, so that both vary from draw to draw;
    no fit for the others."""
    if policy in PREDICTING:
        return tuple((seed, fits[i % len(fits)]) for i, seed in enumerate(seeds))
    return tuple((seed, None) for seed in seeds)


def fit_draws(scale: Scale) -> Draws:
    """Every fit on one seed: what the training draw alone does."""
    return tuple((scale.seeds[0], fit) for fit in scale.fits)


def choice_draws(policy: str, scale: Scale) -> Draws:
    """The choosing seed, with each of the choosing fits where the policy predicts."""
    fits: tuple[int | None, ...] = scale.choice_fits if policy in PREDICTING else (None,)
    return tuple((CHOICE_SEED, fit) for fit in fits)


def choices(scale: Scale) -> list[Search]:
    """Every policy, workload and criterion with every setting, on the choosing seed and fits."""
    found = []
    for model in scale.models:
        for workload in scale.workloads:
            for policy in POLICIES:
                for setting in SETTINGS[policy][: scale.settings]:
                    for criterion in CRITERIA:
                        pairs = choice_draws(policy, scale)
                        where = here(model, workload)
                        found.append(
                            Search("figure4", where, policy, criterion, pairs, setting, stage="choose")
                        )
    return found


def experiments(scale: Scale) -> list[Experiment]:
    """Everything that is reported, the most important first."""
    qwen, *others = scale.models
    found: list[Experiment] = [*figure4(scale, qwen, "overall"), *figure6(scale)]
    found += [*table4(scale), *table5(scale)]
    if scale.side_experiments:
        found += [*slo_base(scale), *explain(scale)]
    found += [*figure4(scale, qwen, "per_class"), *figure5(scale)]
    for model in others:
        found += [*figure4(scale, model, "overall"), *figure4(scale, model, "per_class")]
    return [*found, *readings(scale)] if scale.side_experiments else found


def figure4(scale: Scale, model: str, criterion: Criterion) -> Iterator[Search]:
    """Goodput of every policy on every workload."""
    for workload in scale.workloads:
        for policy in POLICIES:
            pairs = draws(policy, scale.seeds, scale.fits)
            yield Search("figure4", here(model, workload), policy, criterion, pairs)


def figure5(scale: Scale) -> Iterator[Load]:
    """Latency and misses below, at and beyond goodput (Qwen2.5-7B)."""
    for workload in scale.workloads:
        base = paper.FIGURE_4[paper.QWEN, workload][-1]
        for policy in POLICIES:
            pairs = draws(policy, scale.seeds, scale.fits)[: scale.side_seeds]
            for factor in scale.load_factors:
                yield Load("figure5", here(paper.QWEN, workload), policy, pairs, round(factor * base, 3))


def figure6(scale: Scale) -> Iterator[Load]:
    """Misses under a load that switches between 1.0 and 2.5 every two minutes."""
    for policy in POLICIES:
        yield Load(
            "figure6", here(paper.QWEN, "mixed_v1"), policy, draws(policy, scale.seeds, scale.fits), None
        )


def table4(scale: Scale) -> Iterator[Search | Load]:
    """The parts of the method, on the setting chosen for the whole."""
    where = here(paper.QWEN, "mixed_v1")
    for variant, policy, change in (
        (paper.EDF, "sarathi_edf", ()),
        *((variant, SLIDING, change) for variant, change in ABLATIONS.items()),
    ):
        pairs = draws(policy, scale.seeds, scale.fits)
        yield Search("table4", where, policy, "overall", pairs, change=change, variant=variant)
        yield Load("table4", where, policy, pairs, 3.0, change=change, variant=variant)


def table5(scale: Scale) -> Iterator[Fidelity]:
    """The predictor on three machines, as the engine fits it and as the paper does."""
    for where in (
        here(paper.QWEN, "mixed_v1"),
        Where(paper.QWEN, "a6000-tp2-qwen2.5-7b", "mixed_v1"),
        Where(paper.LLAMA, "a100-tp1-llama3.1-8b", "mixed_v1"),
    ):
        for method in ("robust", "ols"):
            pairs = fit_draws(scale)
            yield Fidelity(where, 1.5, pairs, options(method=method))


def readings(scale: Scale) -> Iterator[Search]:
    """What each reading of the paper does to goodput."""
    for variant, change in READINGS.items():
        pairs = fit_draws(scale)
        where = here(paper.QWEN, "mixed_v1")
        yield Search("readings", where, SLIDING, "overall", pairs, change=change, variant=variant)


def slo_base(scale: Scale) -> Iterator[Search]:
    """Goodput by the serving overhead that the promise's base includes."""
    for base in scale.slo_bases_ms:
        where = replace(here(paper.QWEN, "mixed_v1"), slo_base_ms=base)
        for policy in paper.COMPARED:
            pairs = draws(policy, scale.seeds, scale.fits)[: scale.side_seeds]
            yield Search("slo_base", where, policy, "overall", pairs, variant=f"{base:g} ms")


def explain(scale: Scale) -> Iterator[Search]:
    """Conditions that could explain a difference to the paper."""
    base = here(paper.QWEN, "mixed_v1")
    conditions: dict[str, tuple[Where, Options]] = {
        "as in Figure 4": (base, ()),
        "noise 10 %": (replace(base, noise=0.10), ()),
        "noise 10 %, margin 1.3": (replace(base, noise=0.10), options(margin=1.3)),
        "NVLink bridge: all-reduce 12 us, 45 GB/s": (replace(base, link=(12e-6, 45e9)), ()),
        "slower machine: all-reduce 60 us, 4 GB/s, host 8 ms": (
            replace(base, link=(60e-6, 4e9), host=8e-3),
            (),
        ),
        "asynchronous scheduling": (replace(base, async_scheduling=True), ()),
        "predictor never refitted": (base, options(refresh_seconds=None)),
        "predictor fitted without noise": (base, options(oracle=True)),
    }
    for policy in paper.COMPARED:
        pairs = draws(policy, scale.seeds, scale.fits)[: scale.side_seeds]
        for variant, (where, change) in conditions.items():
            if change and policy != SLIDING:
                continue
            yield Search("explain", where, policy, "overall", pairs, change=change, variant=variant)
        for alpha in ALPHAS[policy]:
            change = options(alpha=alpha)
            yield Search("explain", base, policy, "overall", pairs, change=change, variant=f"alpha {alpha}")
        for cap in QOSERVE_CAPS if policy == "qoserve" else ():
            change = options(grid="artifact", budget=cap)
            variant = f"artifact's grid, {'no cap' if cap is None else f'cap {cap}'}"
            yield Search("explain", base, policy, "overall", pairs, change=change, variant=variant)
    for scheme in (paper.SC, paper.SC_MLPS):
        pairs = draws(SLIDING, scale.seeds, scale.fits)[: scale.side_seeds]
        for cap in CHUNK_CAPS:
            change = tuple(sorted((*ABLATIONS[scheme], ("max_chunk", cap))))
            variant = f"{scheme}, chunk of {cap} at most"
            yield Search("explain", base, SLIDING, "overall", pairs, change=change, variant=variant)
