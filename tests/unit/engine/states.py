"""Snapshots and models for the tests of the method: by hand and by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
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


_slope = st.one_of(st.just(0.0), st.floats(1e-9, 1e-3))
_weights = st.builds(Weights, st.floats(0.0, 0.05), st.tuples(*[_slope] * 7))
models = st.builds(LatencyModel, _weights, st.dictionaries(st.sampled_from(Scene), _weights))


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
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any state of up to 24 requests, tight and roomy ones alike."""
    rows = [draw(_rows(i)) for i in range(draw(st.integers(0, 24)))]
    return Snapshot.from_rows(
        rows,
        now=0.0,
        max_tokens=draw(st.sampled_from([1, 7, 64, 512, 2048])),
        max_admissions=draw(st.integers(0, 12)),
        free_kv_tokens=draw(st.sampled_from([0, 5, 100, 3000, 1_000_000])),
        throughput=draw(st.sampled_from([0.0, 50.0, 5000.0])),
    )
