"""Whatever a file holds, reading it gives a trace or a WorkloadError of one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slidingserve import workloads
from slidingserve.workloads import Reading, WorkloadError
from slidingserve.workloads.options import FileOptions, arrivals_of, slo_of

SETTINGS = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = st.sampled_from(
    [
        *("arrival", "timestamp", "Timestamp_ms", "prompt_tokens", "output_tokens", "Request tokens"),
        *("Response tokens", "slo_class", "prompt", "response", "hash_ids", "conversations", "x", ""),
    ]
)
CELLS = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.sampled_from(["0", "-1", "1e400", "-0.0", "1" * 5000, "٣", "2023-11-16 18:17:03.9799600", '"', "\0"]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.integers(0, 3000)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SUFFIXES = st.sampled_from([".csv", ".jsonl", ".json", ""])
READINGS = st.sampled_from(
    [
        Reading(),
        Reading(strict=True),
        Reading(missing_output=3, zero_output="drop"),
        Reading(columns={"arrival": "x"}, time_unit="ms"),
        Reading(zero_output="refuse", default_class="a", prefix_block=1),
    ]
)


def is_one_line(error: WorkloadError) -> None:
    assert len(str(error).splitlines()) == 1
    str(error).encode()


def loads_or_refuses(folder: Path, suffix: str, content: bytes, reading: Reading) -> None:
    path = folder / f"any{suffix}"
    path.write_bytes(content)
    try:
        trace, report = workloads.load(path, qps=2.0, reading=reading)
    except WorkloadError as error:
        is_one_line(error)
        return
    assert len(trace) == report.kept == report.rows - len(report.bad)
    "\n".join(report.lines()).encode()


@SETTINGS
@given(content=st.binary(max_size=200), suffix=SUFFIXES, reading=READINGS)
def test_bytes(tmp_path: Path, content: bytes, suffix: str, reading: Reading) -> None:
    loads_or_refuses(tmp_path, suffix, content, reading)


@SETTINGS
@given(
    header=st.lists(NAMES, max_size=6),
    rows=st.lists(st.lists(CELLS, max_size=6), max_size=5),
    reading=READINGS,
)
def test_tables(tmp_path: Path, header: list[str], rows: list[list[str]], reading: Reading) -> None:
    lines = "\r\n".join(",".join(row) for row in [header, *rows])
    loads_or_refuses(tmp_path, ".csv", lines.encode("utf-8", "surrogatepass"), reading)


@SETTINGS
@given(
    rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=4),
    array=st.booleans(),
    reading=READINGS,
)
def test_objects(tmp_path: Path, rows: list[dict[str, object]], array: bool, reading: Reading) -> None:
    content = json.dumps(rows) if array else "\n".join(json.dumps(row) for row in rows)
    loads_or_refuses(tmp_path, ".json" if array else ".jsonl", content.encode(), reading)


@SETTINGS
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "arrival": st.one_of(st.floats(0, 1e30), st.integers(0, 10**25), st.datetimes().map(str)),
                "prompt_tokens": st.integers(0, 10**9),
                "output_tokens": st.integers(0, 10**9),
            }
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_lengths_and_times_of_any_size(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    loads_or_refuses(tmp_path, ".jsonl", "\n".join(json.dumps(row) for row in rows).encode(), Reading())


@SETTINGS
@given(text=st.text(max_size=30))
def test_options(text: str) -> None:
    for parse in (arrivals_of, slo_of, lambda one: FileOptions([one]).reading()):
        for candidate in (text, f"switching:{text}", f"a={text}", f"a={text}/{text}", f"prompt={text}"):
            try:
                parse(candidate)
            except WorkloadError as error:
                is_one_line(error)


def test_a_huge_file_of_one_row_is_not_taken_apart_twice(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"arrival": 0, "prompt": "word " * 200_000, "output_tokens": 3}))
    trace, _ = workloads.load(path)
    assert trace.prompt_tokens[0] == pytest.approx(260_000)
