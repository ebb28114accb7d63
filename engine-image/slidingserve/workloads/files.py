"""The user's own file as a `Trace`: rows (``rows.read``) on a time axis (``arrivals``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from slidingserve.workloads.arrivals import Arrivals, Switching, generated, own
from slidingserve.workloads.catalogue import Streams
from slidingserve.workloads.rows import Reading, Report, Row, read
from slidingserve.workloads.trace import CLASSES, Trace, WorkloadError, class_by_length, with_prefixes


def load(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    reading: Reading | None = None,
    requests: int | None = None,
    qps: float | None = None,
    seed: int = 0,
    arrivals: Arrivals | None = None,
    switch: Switching | None = None,
) -> tuple[Trace, Report]:
    """The first ``requests`` of a file (None: all) on a time axis, as `catalogue.get` has it, and the report.

    ``arrivals`` None: the file's own where it has times (stretched to ``qps`` if given), else Poisson.
    ``columns`` adds to those of ``reading``.
    """
    reading = reading or Reading()
    if columns:
        reading = replace(reading, columns={**reading.columns, **columns})
    report = read(path, reading)
    rows = report.usable
    if requests is not None and not 1 <= requests <= len(rows):
        raise WorkloadError(f"requests {requests}: {path} holds {len(rows)}; ask for 1 to {len(rows)}")
    rows = rows[:requests]
    timed = "arrival" in report.columns
    arrivals = arrivals or ("trace" if timed else "poisson")
    if arrivals == "trace":
        if not timed:
            raise WorkloadError(f"{path}: has no column arrival; use poisson arrivals and say --qps")
        trace = _trace(rows, reading, Path(path).name)
        return replace(trace, arrival=own(trace.arrival, qps)), report
    count = requests if arrivals == "switching" else len(rows)
    times = generated(arrivals, count, qps, switch, Streams.of(seed).arrivals)[: len(rows)]
    return replace(_trace(rows[: times.size], reading, Path(path).name), arrival=times), report


def _trace(rows: list[Row], reading: Reading, name: str) -> Trace:
    """Rows as arrays; classes beside the paper's two in the order in which they occur."""
    prompts = np.array([row.prompt_tokens for row in rows], dtype=np.int64)
    by_length = class_by_length(prompts)
    names = list(dict.fromkeys([*CLASSES, *(row.slo_class for row in rows if row.slo_class)]))
    index = {name: number for number, name in enumerate(names)}
    trace = Trace(
        arrival=np.array([row.arrival or 0.0 for row in rows], dtype=np.float64),
        prompt_tokens=prompts,
        output_tokens=np.array([row.output_tokens for row in rows], dtype=np.int64),
        slo_class=np.array(
            [index[row.slo_class] if row.slo_class else by_length[i] for i, row in enumerate(rows)],
            dtype=np.int64,
        ),
        class_names=tuple(names),
        name=name,
    )
    ids = np.array([one for row in rows for one in row.ids], dtype=np.int64)
    blocks = np.array([len(row.ids) for row in rows], dtype=np.int64)
    return with_prefixes(trace, ids, blocks, reading.prefix_block)
