"""Limits by class and solo time, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from slidingserve import hardware
from slidingserve.bench.promises import promised, solo_of
from slidingserve.bench.workload import Item, Promise, WorkloadError
from slidingserve.workloads.slo import PAPER, Slo

ITEMS = [Item(0, 0.0, "dialogue", 100, 5), Item(1, 0.0, "summarization", 3000, 5), Item(2, 0.0, None, 10, 5)]


def test_slowdowns_multiply_the_profiles_solo_times_and_others_are_promised_nothing() -> None:
    name = hardware.names()[0]
    solo = hardware.solo_seconds(hardware.get(name), np.array([100, 3000]))
    dialogue, summary, other = promised(ITEMS, PAPER, solo_of(name))
    assert dialogue.promise == Promise(float(5 * solo[0]), 0.040)
    assert summary.promise == Promise(float(10 * solo[1]), 0.080)
    assert other.promise is None


def test_milliseconds_need_no_solo_times() -> None:
    (first, *_) = promised(ITEMS, {"dialogue": Slo(ttft_seconds=0.5, tbt_seconds=0.1)})
    assert first.promise == Promise(0.5, 0.1)
    with pytest.raises(WorkloadError, match="hardware profile"):
        promised(ITEMS, PAPER)


def test_a_table_is_interpolated_and_goes_on_outside(tmp_path: Path) -> None:
    path = tmp_path / "solo.csv"
    path.write_text("prompt_tokens,seconds\n1000,1\n100,0.1\n2000,3\n")
    times = solo_of(str(path))(np.array([1, 100, 550, 1000, 1500, 3000]))
    np.testing.assert_allclose(times, [0.1, 0.1, 0.55, 1.0, 2.0, 5.0])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("prompt_tokens,seconds\n5,1\n", "holds 1 lengths"),
        ("prompt_tokens,seconds\n5,x\n", "line 2: write prompt_tokens and seconds"),
        ("tokens,seconds\n5,1\n", "line 2: write prompt_tokens"),
        ("prompt_tokens,seconds\n5,1\n6,0\n", "line 3: .*must be above 0"),
        ("prompt_tokens,seconds\n5\n", "line 2"),
        ("", "is empty"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "solo.csv"
    path.write_text(content)
    with pytest.raises(WorkloadError, match=says):
        solo_of(str(path))
