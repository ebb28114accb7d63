"""Numbers made of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from slidingserve import sim
from slidingserve.sim import jobs, metrics
from slidingserve.sim.compare import Cell
from slidingserve.sim.metrics import Tally

from tests.unit.sim.engines import busy, engine, hardware, limits, trace


def test_goodput_asks_of_all_or_of_every_class() -> None:
    uneven = {"dialogue": Tally(980, 0, 0, 0), "summarization": Tally(20, 10, 10, 0)}
    assert metrics.within_goodput(uneven, "overall")
    assert not metrics.within_goodput(uneven, "per_class")
    assert not metrics.within_goodput({"dialogue": Tally(1000, 11, 11, 0)}, "overall")


def test_pooled_runs_are_one_sample() -> None:
    part = {"dialogue": Tally(10, 1, 1, 0)}
    both = metrics.pooled([part, {"dialogue": Tally(30, 2, 0, 2), "summarization": Tally(5, 0, 0, 0)}])
    assert both == {"dialogue": Tally(40, 3, 1, 2), "summarization": Tally(5, 0, 0, 0)}
    assert metrics.overall(both) == Tally(45, 3, 1, 2)


def test_a_summary_counts_by_class_and_remembers_who_missed() -> None:
    of = busy(200)
    two = replace(of, slo_class=np.arange(200) % 2)
    ttft, tbt = limits(two, ttft=0.3)
    result = sim.run(two, ttft, tbt, engine())
    summary = jobs.execute(jobs.Job(engine(), two, ttft, tbt, 0))
    assert jobs.missed(summary).tolist() == result.missed.tolist()
    assert 0 < result.missed.sum() < 200
    tallies = jobs.tallies(summary)
    assert tallies == metrics.tallies(result)
    assert tallies["dialogue"].missed == result.missed[::2].sum()
    assert summary["overall"]["violations_percent"] == pytest.approx(100 * result.missed.mean())


def test_tbt_percentiles_are_of_all_gaps() -> None:
    of = trace([0.0], 16, 11)
    result = sim.run(of, *limits(of), engine(hardware=hardware(step=0.03, token=0.0)))
    group = metrics.summary(result)["overall"]
    assert group["tbt_p50_s"] == pytest.approx(0.03)
    assert group["longest_gap_p99_s"] == pytest.approx(0.03)
    assert group["e2e_p50_s"] == pytest.approx(0.33)


def test_a_difference_is_taken_in_pairs() -> None:
    def cell(name: str, missed: list[int]) -> Cell:
        packed = np.packbits(np.array(missed, bool)).tobytes().hex()
        return Cell(name, 1.0, [{"missed": packed, "overall": {"requests": len(missed)}}])

    few, many = cell("few", [0, 0, 0, 1] * 25), cell("many", [0, 1, 0, 1] * 25)
    gain, low, high = few.less_violations_than(many)
    assert gain == pytest.approx(25.0)
    assert 0 < low < 25 < high
    assert many.less_violations_than(many) == (0.0, 0.0, 0.0)
