"""Measurements into files: rows as JSON and CSV, our numbers beside the paper's as markdown, the report."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from slidingserve import hardware
from slidingserve.report import captions, tables, text
from slidingserve.report.command import draw
from slidingserve.report.rows import Results
from slidingserve.whole import whole

from benchmarks.paper.experiments import SLO_BASE_MS
from benchmarks.paper.measurements import Asked
from benchmarks.paper.plan import CHOICE_SEED, Scale
from benchmarks.paper.simulated import Metrics

NOTES = Path(__file__).with_name("deviations.md")
"""The text about deviations that the report's page ends with."""

_FIRST = (
    *("figure", "model", "hardware", "workload", "policy", "options", "seed", "fit", "criterion", "metric"),
    *("value", "stage", "variant", "scene", "qps", "time_s", "n", "ci_low", "ci_high"),
)


def rows(found: Iterable[tuple[Asked, Metrics]]) -> list[dict[str, Any]]:
    """A row for each metric of each measurement."""
    return [{**one.label, **metric} for one, metrics in found for metric in metrics]


def document(made: Sequence[dict[str, Any]], scale: Scale, *, complete: bool = True) -> dict[str, Any]:
    """The results file: rows, and what captions must say."""
    names = sorted({row["hardware"] for row in made})
    about = {
        "requests": scale.requests,
        "seeds": list(scale.seeds),
        "fits": list(scale.fits),
        "choice_seed": CHOICE_SEED,
        "choice_requests": scale.choice_requests,
        "slo_base_ms": SLO_BASE_MS,
        "tolerance": scale.tolerance,
        "quick": scale.quick,
        "complete": complete,
        "hardware": {name: f"{hardware.get(name).title}. {hardware.get(name).sources}" for name in names},
    }
    return {"about": about, "rows": list(made)}


def write(made: dict[str, Any], out: Path) -> None:
    """results.json, results.csv and table.md below `out`, each whole. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    with whole(out / "results.json") as place:
        place.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    with whole(out / "results.csv") as place, place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _FIRST, extrasaction="ignore", restval="")
        writer.writeheader()
        for row in made["rows"]:
            writer.writerow({**row, "options": json.dumps(row["options"])})
    with whole(out / "table.md") as place:
        place.write_text(markdown(Results.model_validate(made)), encoding="utf-8")


def report(made: dict[str, Any], out: Path) -> list[str]:
    """Draw report/ below `out`; which figures had no rows."""
    notes = NOTES.read_text(encoding="utf-8") if NOTES.exists() else ""
    return draw(Results.model_validate(made), out / "report", notes)


def markdown(results: Results) -> str:
    """All tables, with what their intervals are."""
    rows_ = results.rows
    made = [
        *(tables.headline(rows_, criterion) for criterion in ("overall", "per_class")),
        *(tables.everyone(rows_, criterion) for criterion in ("overall", "per_class")),
        *(tables.figure6(rows_), tables.table4(rows_), tables.table5(rows_)),
        tables.table5(rows_, scenes=True),
        tables.variants(rows_, "slo_base", "Goodput by SLO base, mixed-v1"),
        *(tables.variants(rows_, name, title) for name, (title, _) in captions.VARIANTS.items()),
        tables.settings(rows_),
    ]
    head = f"{captions.conditions(results.about)} {captions.INTERVALS}\n"
    return "\n".join([head, *(text.markdown(table) for table in made if table is not None)])
