"""Snapshots and models for the tests of the method: by hand and by hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from slidingserve.core.columns import Columns
from slidingserve.core.forwarder import Forwarder, make_forwarder
from slidingserve.core.settings import PolicySettings
from slidingserve.core.snapshot import Phase, Row, Snapshot
from slidingserve.predictor.features import Scene
from slidingserve.predictor.model import LatencyModel, Weights

MODEL = LatencyModel(Weights(0.010, (2e-9, 0.0, 0.0, 1e-4, 1e-7, 2e-4, 0.0)))
"""10 ms a step, 0.2 ms a prefill token, 0.1 ms a decode: about a GPU with an 8B model."""


def waiting(name: str, tokens: int, *, slack: float = 5.0, arrival: float = 0.0, **fields: Any) -> Row:
    """A request that wants `tokens` prefilled and is due `slack` seconds after time 0."""
    row = Row(name, Phase.WAITING, arrival, tokens, 0, 0, slack - arrival, 0.05)
    return row._replace(**fields)


def prefilling(name: str, left: int, *, done: int = 100, slack: float = 5.0, **fields: Any) -> Row:
    """A running prefill with `left` tokens to go."""
    return waiting(name, done + left, slack=slack, phase=Phase.PREFILL, computed_tokens=done, **fields)


def decoding(name: str, *, slack: float = 0.05, context: int = 500, **fields: Any) -> Row:
    """A decode whose next token is due `slack` seconds after time 0."""
    row = Row(name, Phase.DECODE, -10.0, context, context + 19, 20, slack + 10.0 - 20 * 0.05, 0.05)
    return row._replace(**fields)


def state(*rows: Row, max_tokens: int = 2048, throughput: float = 5000.0, **engine: Any) -> Snapshot:
    """A snapshot at time 0."""
    return Snapshot.from_rows(rows, now=0.0, max_tokens=max_tokens, throughput=throughput, **engine)


def columns(*rows: Row, **engine: Any) -> Columns:
    """The same as columns."""
    return state(*rows, **engine).columns


def queue(
    model: LatencyModel, decodes: list[int], prefills: list[tuple[int, int]], slack: list[float] | None = None
) -> tuple[Columns, Forwarder]:
    """`decodes`: their contexts. `prefills`: (remaining, cached) in service order; they follow the decodes.

    `slack`: of the prefills, seconds.
    """
    rows = [decoding(f"d{i}", context=c - 19, slack=9.0) for i, c in enumerate(decodes)]
    for i, (left, cached) in enumerate(prefills):
        due = 5.0 if slack is None else slack[i]
        rows.append(prefilling(f"p{i}", left, done=cached, slack=due))
    made = columns(*rows)
    first = len(decodes)
    return made, make_forwarder(model.matrix, made, np.arange(first), np.arange(first, len(rows)))


_slope = st.one_of(st.just(0.0), st.floats(1e-9, 1e-3))
_weights = st.builds(Weights, st.floats(0.0, 0.05), st.tuples(*[_slope] * 7))
models = st.builds(LatencyModel, _weights, st.dictionaries(st.sampled_from(Scene), _weights))


settings = st.builds(
    PolicySettings,
    alpha=st.floats(0, 2),
    min_chunk=st.integers(1, 64),
    max_chunk=st.one_of(st.none(), st.integers(64, 512)),
    budget=st.one_of(st.none(), st.integers(1, 512)),
    margin=st.floats(1, 2),
    sorter=st.sampled_from(["mlps", "edf"]),
    late=st.sampled_from(["last", "paper_equation"]),
    overload=st.sampled_from(["serve", "relegate"]),
    window=st.sampled_from(["sliding", "single"]),
    tight=st.sampled_from(["hold", "min_chunk"]),
    search=st.sampled_from(["clamped", "paper"]),
    second_window=st.sampled_from(["advanced", "paper"]),
    floor=st.sampled_from(["decodes", "paper"]),
    safe_decodes=st.sampled_from(["not_late", "all"]),
    idle_window=st.sampled_from(["open", "least_tbt"]),
    constructor=st.booleans(),
    anchor=st.sampled_from(["min_window", "paper"]),
    all_anchors_fail=st.sampled_from(["chunker", "nothing"]),
    capacity=st.sampled_from(["verified", "paper"]),
    rest=st.sampled_from(["leave", "fill"]),
    quantum=st.sampled_from([1, 16, 100]),
    grid=st.sampled_from(["artifact", "rescaled"]),
    grid_smallest=st.integers(1, 128),
    relegation=st.booleans(),
    pressure_cap=st.integers(1, 1024),
    large_prefill=st.integers(1, 2000),
)
"""Every option of every policy, the literal readings too."""


@st.composite
def _rows(draw: st.DrawFn, index: int) -> Row:
    phase = draw(st.sampled_from(Phase))
    tokens = draw(st.integers(1, 3000))
    output = draw(st.integers(0, 50))
    computed = {Phase.WAITING: 0, Phase.PREFILL: tokens // 2, Phase.DECODE: tokens + output}[phase]
    return Row(
        id=f"r{index}",
        phase=phase,
        arrival=draw(st.floats(-10, 0)),
        prefill_tokens=tokens,
        computed_tokens=computed,
        output_tokens=output,
        ttft_limit=draw(st.floats(0.01, 12)),
        tbt_limit=draw(st.floats(0.01, 0.5)),
        safeguard=draw(st.booleans()),
        relegated=draw(st.booleans()) and phase == Phase.WAITING,
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any state of up to 24 requests, tight and roomy ones alike; the running ones stand first."""
    rows = [draw(_rows(i)) for i in range(draw(st.integers(0, 24)))]
    rows.sort(key=lambda row: row.phase == Phase.WAITING)
    return Snapshot.from_rows(
        rows,
        now=0.0,
        max_tokens=draw(st.sampled_from([1, 7, 64, 512, 2048])),
        max_admissions=draw(st.integers(0, 12)),
        free_kv_tokens=draw(st.sampled_from([0, 5, 100, 3000, 1_000_000])),
        throughput=draw(st.sampled_from([0.0, 50.0, 5000.0])),
    )
