"""Workloads: same seed, same requests; a bad file is named by line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from slidingserve import workloads
from slidingserve.bench import workload
from slidingserve.bench.workload import ClassMix, Item, Promise, WorkloadError
from slidingserve.workloads.options import opened
from slidingserve.workloads.slo import PAPER, promises


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


def items_of(path: Path, promised: tuple[str, ...] = ()) -> list[Item]:
    trace, report = opened(str(path))
    assert report is not None
    return workload.of_file(trace, report, promised)


def test_a_files_texts_are_sent_as_they_stand_and_its_rows_in_order(tmp_path: Path) -> None:
    lines = tmp_path / "w.jsonl"
    lines.write_text(
        '{"arrival": 12.5, "prompt": "hi", "output_tokens": 3, "slo_class": "a", "other": 1}\n\n'
        '{"arrival": 10, "prompt_tokens": 7, "output_tokens": 4}\n'
    )
    assert [(i.arrival, i.slo_class, i.output_tokens, i.prompt) for i in items_of(lines)] == [
        (0, None, 4, None),
        (2.5, "a", 3, "hi"),
    ]


def test_rows_without_a_class_ask_for_none_unless_their_class_by_length_is_promised(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("arrival,prompt_tokens,output_tokens,slo_class\n0,5,1,\n1,3000,1,\n2,5,1,chat\n")
    assert [item.slo_class for item in items_of(path)] == [None, None, "chat"]
    both = items_of(path, ("dialogue", "summarization"))
    assert [item.slo_class for item in both] == ["dialogue", "summarization", "chat"]


def test_a_trace_becomes_items_with_its_promises() -> None:
    trace = workloads.get("mixed_v1", requests=50, qps=2.0, seed=1)
    ttft, tbt = promises(trace, np.asarray(trace.prompt_tokens * 1e-3, dtype=np.float64), PAPER)
    items = workload.of_trace(trace, ttft, tbt)
    assert [item.arrival for item in items] == trace.arrival.tolist()
    assert [item.slo_class for item in items] == trace.classes()
    assert items[3].promise == Promise(float(ttft[3]), float(tbt[3]))
    assert all(len(item.token_ids(0)) == item.prompt_tokens for item in items)


def test_requests_that_share_prefix_blocks_send_the_same_tokens_there() -> None:
    trace = workloads.get("mooncake", requests=30, qps=1.0, seed=1, arrivals="poisson")
    one, two = (item for item in workload.of_trace(trace)[:2])
    assert one.prefix[0] == two.prefix[0]
    first, second = one.token_ids(4), two.token_ids(4)
    assert first[:512] == second[:512]
    assert first[:2048] != second[:2048]
    assert len(first) == one.prompt_tokens


@pytest.mark.parametrize("text", ["", "a:1:5-9", "a:x:1-2:1-2", "a:1:9-5:1-2", ":1:1-2:1-2", "a:0:1-2:1-2"])
def test_a_bad_mix_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WorkloadError, match="--mix"):
        ClassMix.parse(text)
