"""Workloads: same seed, same requests; a bad file is named by line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from slidingserve.bench import workload
from slidingserve.bench.workload import ClassMix, WorkloadError


def test_the_same_seed_gives_the_same_requests_and_another_seed_others() -> None:
    first = workload.generate(workload.DEFAULT_MIX, 50, 2.0, seed=3)
    assert first == workload.generate(workload.DEFAULT_MIX, 50, 2.0, seed=3)
    assert first != workload.generate(workload.DEFAULT_MIX, 50, 2.0, seed=4)
    assert first[7].token_ids(3) == first[7].token_ids(3)
    assert first[7].token_ids(3) != first[7].token_ids(4)
    assert len(first[7].token_ids(3)) == first[7].prompt_tokens


def test_classes_are_dealt_exactly_by_share_and_lengths_stay_in_range() -> None:
    items = workload.generate(
        [ClassMix("a", 3, (5, 9), (2, 2)), ClassMix("b", 1, (50, 60), (1, 4))], 101, 5.0, seed=0
    )
    assert sum(item.slo_class == "a" for item in items) == 76
    assert all(5 <= i.prompt_tokens <= 9 and i.output_tokens == 2 for i in items if i.slo_class == "a")
    assert all(50 <= i.prompt_tokens <= 60 and 1 <= i.output_tokens <= 4 for i in items if i.slo_class == "b")


def test_the_mean_gap_between_arrivals_is_one_over_the_rate() -> None:
    items = workload.generate(workload.DEFAULT_MIX, 4000, 4.0, seed=1)
    assert items[0].arrival == 0
    assert items[-1].arrival / 4000 == pytest.approx(0.25, rel=0.05)


def test_a_rare_class_still_gets_a_request() -> None:
    items = workload.generate(
        [ClassMix("a", 1, (1, 1), (1, 1)), ClassMix("b", 1e-6, (1, 1), (1, 1))], 10, 1.0, seed=0
    )
    assert [item.slo_class for item in items].count("b") == 1


def test_jsonl_and_csv_are_read_sorted_and_shifted_to_zero(tmp_path: Path) -> None:
    lines = tmp_path / "w.jsonl"
    lines.write_text(
        '{"arrival": 12.5, "prompt": "hi", "output_tokens": 3, "slo_class": "a", "other": 1}\n\n'
        '{"arrival": 10, "prompt_tokens": 7, "output_tokens": 4}\n'
    )
    table = tmp_path / "w.csv"
    table.write_text("arrived_at,num_prefill_tokens,num_decode_tokens,slo_class\n10,7,4,\n12.5,9,3,a\n")
    assert [(i.arrival, i.slo_class, i.output_tokens) for i in workload.load(lines)] == [
        (0, None, 4),
        (2.5, "a", 3),
    ]
    assert workload.load(lines)[1].prompt == "hi"
    scaled = workload.load(table, time_scale=2)
    assert [(i.arrival, i.slo_class, i.prompt_tokens) for i in scaled] == [(0, None, 7), (5.0, "a", 9)]
    assert len(workload.load(table, limit=1)) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nonsense", "line 1: not JSON"),
        ("[1]", "line 1: is list"),
        (
            '{"arrival": 0, "prompt_tokens": 4, "output_tokens": 2}\n{"arrival": 0, "prompt_tokens": 4}',
            "line 2: output",
        ),
        ('{"arrival": -1, "prompt_tokens": 4, "output_tokens": 2}', "line 1: arrival"),
        ('{"arrival": 0, "output_tokens": 2}', "give prompt"),
        ("", "holds no requests"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_column(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(WorkloadError, match=says):
        workload.load(path)


@pytest.mark.parametrize("text", ["", "a:1:5-9", "a:x:1-2:1-2", "a:1:9-5:1-2", ":1:1-2:1-2", "a:0:1-2:1-2"])
def test_a_bad_mix_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WorkloadError, match="--mix"):
        ClassMix.parse(text)
