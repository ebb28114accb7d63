"""The demo's last word: one row a policy and class, as a table and as ``build/demo/summary.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from slidingserve.bench.client import Result
from slidingserve.bench.score import by_class

from tests.demo.engine import Kept
from tests.demo.load import OURS, STOCK


@dataclass(frozen=True, slots=True)
class Row:
    """Counts are the engine's own; percentiles (ms) are from the client's clock."""

    policy: str
    slo_class: str
    requests: int
    good: int
    attainment: float
    ttft_ms: dict[str, float]
    tbt_ms: dict[str, float]


def rows(policy: str, kept: Mapping[str, Kept], results: Sequence[Result]) -> list[Row]:
    """Rows of one policy over all of its blocks."""
    scores = {score.slo_class: score for score in by_class(results, {})}
    return [
        Row(
            policy,
            name,
            count.requests,
            count.good,
            round(count.good / count.requests, 4),
            scores[name].ttft_ms,
            scores[name].tbt_ms,
        )
        for name, count in kept.items()
        if count.requests and name in scores
    ]


def document(all_rows: Sequence[Row]) -> dict[str, list[dict[str, object]]]:
    """The content of summary.json."""
    return {"rows": [asdict(row) for row in all_rows]}


def attainment(all_rows: Sequence[Row], policy: str) -> float:
    """Share of a policy's requests that kept the whole promise."""
    mine = [row for row in all_rows if row.policy == policy]
    return sum(row.good for row in mine) / max(1, sum(row.requests for row in mine))


def table(all_rows: Sequence[Row]) -> Table:
    """Classes together, policies under each other, so that the eye compares like with like."""
    title = "Attainment (engine's counters; milliseconds on the client's clock)"
    view = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
    for heading in ("class", "policy"):
        view.add_column(heading, no_wrap=True)
    for heading in ("kept", "attained", "TTFT p50/p99", "TBT p50/p99"):
        view.add_column(heading, justify="right")
    for row in sorted(all_rows, key=lambda row: (row.slo_class, row.policy)):
        view.add_row(
            row.slo_class,
            row.policy,
            f"{row.good}/{row.requests}",
            f"{row.attainment:.1%}",
            *(f"{part['p50']:.0f}/{part['p99']:.0f}" for part in (row.ttft_ms, row.tbt_ms)),
        )
    return view


def promises(resource: Mapping[str, Any]) -> str:
    """The promises of a SLOServe's classes, one line each."""
    lines = []
    for slo in resource["spec"]["sloClasses"]:
        (kind, value), *_ = slo["ttft"].items()
        first = f"{value:g} ms" if kind == "milliseconds" else f"{value:g} x the prompt's time alone"
        lines.append(
            f"{slo['name']}: first token within {first}, then one every {slo['tbtMilliseconds']:g} ms"
        )
    return "\n".join(lines)


def verdict(all_rows: Sequence[Row]) -> str:
    """One honest sentence, whichever way it went."""
    stock, ours = attainment(all_rows, STOCK), attainment(all_rows, OURS)
    word = "more" if ours > stock else "NOT more"
    return (
        f"{OURS} kept {ours:.1%} of the promises, stock order ({STOCK}) {stock:.1%}: {word} than stock here."
    )
