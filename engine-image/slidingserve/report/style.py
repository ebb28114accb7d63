"""How figures look: names, colours that colour-blind readers tell apart (Okabe and Ito), marks for print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """A policy in a figure."""

    title: str
    colour: str
    marker: str
    line: str
    hatch: str


LOOKS = {
    "fcfs": Look("vLLM's order (fcfs)", "#999999", "v", ":", "...."),
    "ppas": Look("P-PAS", "#56B4E9", "^", "-.", "----"),
    "sarathi_edf": Look("Sarathi-EDF", "#0072B2", "s", "--", "////"),
    "qoserve": Look("QoServe", "#E69F00", "D", "-.", "xxxx"),
    "slidingserve_paper": Look("SlidingServe (paper)", "#D55E00", "o", "-", ""),
}
_SPARE = ("#009E73", "#CC79A7", "#000000")

WORKLOADS = {
    "sharegpt": "ShareGPT",
    "arxiv_v1": "Arxiv-v1",
    "arxiv_v2": "Arxiv-v2",
    "mixed_v1": "mixed-v1 (3:1)",
    "mixed_v2": "mixed-v2 (5:1)",
}
MODELS = {"qwen2.5-7b": "Qwen2.5-7B", "llama3.1-8b": "Llama-3.1-8B"}
CRITERIA = {
    "overall": "at most 1 % of all requests miss",
    "per_class": "at most 1 % of the requests of every class miss",
}


def look(policy: str) -> Look:
    """The policy's look; one that this list does not know keeps its name and gets a spare colour."""
    spare = _SPARE[sum(policy.encode()) % len(_SPARE)]
    return LOOKS.get(policy, Look(policy, spare, "P", "-", "++"))


def order(policies: set[str]) -> list[str]:
    """Policies in the order of the figures: known ones first."""
    return sorted(policies, key=lambda name: (list(LOOKS).index(name) if name in LOOKS else len(LOOKS), name))


def workload(name: str) -> str:
    """A workload's title."""
    return WORKLOADS.get(name, name)


def workloads(names: set[str]) -> list[str]:
    """Workloads in the paper's order, others behind them."""
    known = list(WORKLOADS)
    return sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))


def model(name: str) -> str:
    """A model's title."""
    return MODELS.get(name, name)
