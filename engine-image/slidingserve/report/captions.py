"""What stands below each figure and table: what is shown, how it was measured, what an interval is."""

from __future__ import annotations

from slidingserve.report.intervals import BOOTSTRAP, T_INTERVAL
from slidingserve.report.rows import About

INTERVALS = (
    f"Intervals: {T_INTERVAL}, from three runs on and cut to values that are possible; a policy that "
    "predicts has another training draw (a fit) of its predictor for each seed. Where several fits met the "
    f"same seed: {BOOTSTRAP}."
)

CRITERIA = {
    "overall": "at most 1 % of all requests missing a deadline",
    "per_class": "at most 1 % of the requests of every class missing a deadline",
}
GOODPUT = (
    "Goodput: the highest Poisson rate with {criterion}. Every policy at its best setting for that workload, "
    "chosen on a seed of its own. Dots: seeds, or fits."
)
OVERLOAD = (
    "Time to the first token and share of requests that miss a deadline, as the rate grows past goodput. "
    "Settings as in Figure 4. Lines: median of the runs; bands: lowest to highest."
)
SWITCHING = (
    "mixed-v1; the rate switches between low and high every two minutes. A request counts at its arrival. "
    "Lines: mean of the runs; bands: lowest to highest."
)
ABLATION = (
    "SC: SlidingChunker with deadline order; MLPS: Multi-Level Priority Sorter; BC: BatchConstructor. "
    "Gains are over the row above."
)
PREDICTOR = (
    "Errors on batches that a run scheduled. live: each batch is predicted by the model then in "
    "force, before it runs; paired: a model fitted to half of those batches predicts the other half. "
    "The noise of the hardware model is part of every error."
)
SLO_BASE = (
    "The paper promises a first token within 5 or 10 times the time of exclusive service, and does not "
    "say what that time includes. Settings are those chosen at the headline's base."
)
VARIANTS = {
    "readings": (
        "Readings of the paper",
        "One option at a time set to the paper as printed, all else as chosen.",
    ),
    "explain": (
        "Deviations, by experiment",
        "One condition of the hardware or of the method changed at a time.",
    ),
}
SETTINGS = (
    "What each policy was tried with. The best of each cell is what Figure 4 reports, on other seeds, so "
    "that the choice does not flatter the result."
)


def conditions(about: About) -> str:
    """The sentence every caption ends with: hardware is a model, the SLO base, requests, seeds."""
    parts = ["Simulated on a model of the hardware"]
    if about.slo_base_ms is not None:
        base = f"solo prefill plus {about.slo_base_ms:g} ms serving overhead"
        parts.append(f"TTFT promises are multiples of {base}")
    if about.requests:
        parts.append(f"{about.requests:,} requests a run")
    if about.seeds:
        parts.append(f"seeds {', '.join(map(str, about.seeds))}")
    return "; ".join(parts) + "."
