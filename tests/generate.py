"""Generated files and what makes them: one table. `make generate` writes them, `--check` fails on drift.

Each source names paths in the repository and returns their whole text, so that one truth (a pydantic model,
the metrics table, the dashboards' source) feeds every file that repeats it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# module that offers `generated_files() -> dict[path relative to the repository, text]`
SOURCES = (
    "sloserve_operator.api.generated",
    "sloserve_operator.telemetry",
    "slidingserve.generated",
    "slidingserve.hardware.generated",
    "dashboards.build",
    "dashboards.rules",
    "tests.desired",
    "tests.chart.values",
)


def collect(sources: tuple[str, ...] = SOURCES) -> dict[Path, str]:
    """Ask every source for its files. Raises ValueError if two sources claim one path."""
    files: dict[Path, str] = {}
    for source in sources:
        render: Callable[[], Mapping[str, str]] = import_module(source).generated_files
        for name, text in render().items():
            path = ROOT / name
            if path in files:
                raise ValueError(f"{name}: claimed by {source} and by another source")
            files[path] = text
    return files


def main(argv: list[str]) -> int:
    """Write the files, or with --check list those that differ; the exit status says whether any did."""
    check = "--check" in argv
    files = collect()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what its source makes: run `make generate` and commit")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
