"""Write the dashboards' JSON: into dashboards/generated/ for people, and into the chart for its ConfigMap.

`python -m dashboards.build` writes, `--check` only compares; `make generate` calls `generated_files`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import slo
from dashboards.panels import dashboard

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("dashboards/generated", "charts/sloserve/files/dashboards")


def boards() -> dict[str, Any]:
    """File name -> Grafana's model of each dashboard."""
    return {f"{slo.UID}.json": dashboard(slo.TITLE, slo.UID, slo.DESCRIPTION, slo.VARIABLES, slo.ROWS)}


def generated_files() -> dict[str, str]:
    """Path in the repository -> text of every copy of every dashboard; same source, same bytes."""
    texts = {
        name: json.dumps(board, cls=JSONEncoder, sort_keys=True, indent=2) + "\n"
        for name, board in boards().items()
    }
    return {f"{place}/{name}": text for place in PLACES for name, text in texts.items()}


def main(argv: list[str]) -> int:
    """Write the files, or with --check name those that differ. Returns the exit status."""
    check = "--check" in argv
    stale = [
        n
        for n, text in generated_files().items()
        if not (ROOT / n).exists() or (ROOT / n).read_text() != text
    ]
    for name in stale:
        if check:
            print(f"{name} is not what dashboards/ makes: run `python -m dashboards.build` and commit")
        else:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(generated_files()[name])
            print(f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
