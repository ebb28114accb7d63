from __future__ import annotations

import numpy as np
import pytest
from slidingserve import workloads
from slidingserve.workloads import WorkloadError
from slidingserve.workloads.slo import PAPER, Slo, promises


def test_the_papers_promises_follow_class_and_solo_time() -> None:
    trace = workloads.get("mixed_v1", requests=200, qps=1.0)
    solo = np.asarray(0.06 + trace.prompt_tokens * 1e-4, dtype=np.float64)
    ttft, tbt = promises(trace, solo, PAPER)
    long = trace.slo_class == 1
    np.testing.assert_allclose(ttft, np.where(long, 10, 5) * solo)
    np.testing.assert_allclose(tbt, np.where(long, 0.080, 0.040))


def test_promises_in_seconds_need_no_solo_time() -> None:
    trace = workloads.get("sharegpt", requests=5, qps=1.0)
    ttft, tbt = promises(trace, None, {"dialogue": Slo(ttft_seconds=0.5, tbt_seconds=0.1)})
    assert set(ttft) == {0.5}
    assert set(tbt) == {0.1}


def test_a_slowdown_without_solo_times_is_refused() -> None:
    with pytest.raises(WorkloadError, match="hardware profile"):
        promises(workloads.get("sharegpt", requests=5, qps=1.0), None, PAPER)


def test_a_class_without_a_promise_is_named_if_it_occurs() -> None:
    only = {"dialogue": PAPER["dialogue"]}
    promises(workloads.get("sharegpt", requests=5, qps=1.0), np.ones(5), only)
    with pytest.raises(WorkloadError, match="summarization"):
        promises(workloads.get("arxiv_v1", requests=5, qps=1.0), np.ones(5), only)


def test_solo_times_of_another_length_are_refused() -> None:
    with pytest.raises(WorkloadError, match="5 requests"):
        promises(workloads.get("sharegpt", requests=5, qps=1.0), np.ones(4), PAPER)


@pytest.mark.parametrize(
    "arguments", [{}, {"ttft_slowdown": 5.0, "ttft_seconds": 1.0}, {"ttft_seconds": 0.0}]
)
def test_an_slo_has_exactly_one_ttft_above_zero(arguments: dict[str, float]) -> None:
    with pytest.raises(WorkloadError):
        Slo(**arguments)


def test_an_slo_is_written_as_it_is_given() -> None:
    assert str(PAPER["dialogue"]) == "5x/40ms"
    assert str(Slo(ttft_seconds=0.5, tbt_seconds=0.1)) == "500ms/100ms"
