"""The paper's own numbers, as far as its text and figures give them (arXiv 2606.05933, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

QWEN, LLAMA = "qwen2.5-7b", "llama3.1-8b"
WORKLOADS = ("sharegpt", "arxiv_v1", "arxiv_v2", "mixed_v1", "mixed_v2")
COMPARED = ("sarathi_edf", "qoserve", "slidingserve_paper")

# Figure 4, requests a second: Sarathi-EDF, QoServe, SlidingServe. Table 4 confirms mixed-v1 on Qwen; for the
# other bars the three values are the figure's, and which workload they belong to is our reading of its text.
FIGURE_4: dict[tuple[str, str], tuple[float, float, float]] = {
    (QWEN, "sharegpt"): (2.80, 3.20, 3.50),
    (QWEN, "arxiv_v1"): (0.60, 0.85, 1.00),
    (QWEN, "arxiv_v2"): (0.35, 0.50, 0.65),
    (QWEN, "mixed_v1"): (1.50, 1.70, 1.95),
    (QWEN, "mixed_v2"): (1.30, 1.50, 1.70),
    (LLAMA, "sharegpt"): (2.30, 3.00, 3.30),
    (LLAMA, "arxiv_v1"): (0.45, 0.80, 0.95),
    (LLAMA, "arxiv_v2"): (0.25, 0.40, 0.50),
    (LLAMA, "mixed_v1"): (1.25, 1.55, 1.85),
    (LLAMA, "mixed_v2"): (1.10, 1.35, 1.55),
}

# Table in Figure 6: percent of requests that miss over the 20 minutes.
FIGURE_6 = {"sarathi_edf": 57.78, "qoserve": 51.30, "slidingserve_paper": 27.56}


@dataclass(frozen=True)
class Ablation:
    """A row of Table 4."""

    optimal_qps: float
    violations_percent: float
    """At 3 requests a second."""


EDF, SC, SC_MLPS, FULL = "Sarathi-EDF", "SC", "SC+MLPS", "SC+MLPS+BC"
TABLE_4 = {
    EDF: Ablation(1.50, 100.0),
    SC: Ablation(1.75, 81.5),
    SC_MLPS: Ablation(1.85, 58.6),
    FULL: Ablation(1.95, 50.5),
}


@dataclass(frozen=True)
class Fidelity:
    """A row of Table 5."""

    mae_ms: float
    rmse_ms: float
    r2: float


# By the start of a hardware profile's name.
TABLE_5 = {
    "rtx3090-tp2": Fidelity(2.64, 4.33, 0.9956),
    "a6000-tp2": Fidelity(2.52, 4.12, 0.9923),
    "a100": Fidelity(2.72, 4.254, 0.9929),
}


def figure4(model: str, workload: str, policy: str) -> float | None:
    """The paper's goodput in requests a second, or None where it has no such bar."""
    bars = FIGURE_4.get((model, workload))
    return bars[COMPARED.index(policy)] if bars and policy in COMPARED else None


def table5(hardware: str) -> Fidelity | None:
    """The paper's row for a hardware profile, or None."""
    return next((found for start, found in TABLE_5.items() if hardware.startswith(start)), None)
