"""What each policy is tried with, the paper's ablation, and the readings of the paper: options by name."""

from __future__ import annotations

from typing import Any

from slidingserve.report import paper

Options = tuple[tuple[str, Any], ...]
"""Settings that differ from the defaults, sorted by name; `method` and the like belong to the predictor."""

POLICIES = ("fcfs", "ppas", "sarathi_edf", "qoserve", "slidingserve_paper")
SLIDING = "slidingserve_paper"
PREDICTING = ("qoserve", SLIDING)
"""Policies whose plans depend on the predictor, and so on its training draw."""


def options(**values: Any) -> Options:
    """Options from keywords."""
    return tuple(sorted(values.items()))


ALPHAS = (0.8, 0.4)
"""The paper gives none; 0.8 is our default, and for QoServe its artifact's 0.008 s a token."""

SETTINGS: dict[str, tuple[Options, ...]] = {
    "fcfs": tuple(options(budget=budget) for budget in (2048, 512, 256, 128)),
    "sarathi_edf": tuple(options(budget=budget) for budget in (64, 128, 256, 512)),
    "qoserve": tuple(
        options(grid=grid, budget=cap, alpha=alpha)
        for alpha in ALPHAS
        for grid in ("artifact", "rescaled")
        for cap in (None, 512, 256)
    ),
    "ppas": tuple(options(pressure_cap=cap) for cap in (128, 256, 512)),
    SLIDING: (
        *(
            options(margin=m, max_chunk=chunk, alpha=alpha)
            for alpha in ALPHAS
            for m in (1.15, 1.3)
            for chunk in (None, 512, 256)
        ),
        *(options(margin=m, method="ols") for m in (1.15, 1.3)),
    ),
}
"""What every policy may choose from, per workload and criterion."""

ABLATIONS: dict[str, Options] = {
    paper.SC: options(sorter="edf", constructor=False),
    paper.SC_MLPS: options(constructor=False),
    paper.FULL: (),
}

READINGS: dict[str, Options] = {
    "as chosen": (),
    "margin 1.0 (as printed)": options(margin=1.0),
    "late requests most urgent (equation 10)": options(late="paper_equation"),
    "b from |D| to B (line 4)": options(search="paper"),
    "second batch on the queue as it is": options(second_window="paper"),
    "second batch below |D|": options(floor="paper"),
    "D_safe: all decodes": options(safe_decodes="all"),
    "no decode: window of the least TBT": options(idle_window="least_tbt"),
    "anchor's time: its slack alone": options(anchor="paper"),
    "no anchor can be saved: decodes alone": options(all_anchors_fail="nothing"),
    "capacity trusted": options(capacity="paper"),
    "plain least squares": options(method="ols"),
    "one step only (not the paper's)": options(window="single"),
    "capacity left over is filled (not the paper's)": options(rest="fill"),
    "alpha 0.4 (the paper gives none)": options(alpha=0.4),
    "alpha 0.8 (the paper gives none)": options(alpha=0.8),
    "alpha 1.2 (the paper gives none)": options(alpha=1.2),
    "all readings as printed": options(
        margin=1.0,
        late="paper_equation",
        search="paper",
        second_window="paper",
        floor="paper",
        safe_decodes="all",
        idle_window="least_tbt",
        anchor="paper",
        all_anchors_fail="nothing",
        capacity="paper",
        method="ols",
    ),
}
"""One option at a time to the paper as printed, some choices it leaves open, then all as printed."""
