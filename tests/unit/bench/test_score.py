"""Equation 1 on the client's clock."""

from __future__ import annotations

import pytest
from slidingserve.bench.client import Result
from slidingserve.bench.score import Verdict, by_class, judge, percentiles, record
from slidingserve.bench.summary import most_open, summary
from slidingserve.bench.workload import Promise

PROMISE = Promise(ttft=1.0, tbt=0.1)


def result(*times: float, error: str | None = None, name: str = "a") -> Result:
    return Result(0, name, 0.0, 5, len(times), token_times=list(times), error=error)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((1.0, 1.1, 1.2), Verdict(True, True)),
        ((1.01, 1.02, 1.03), Verdict(False, True)),  # deadlines do not move after a late first token
        ((0.5, 1.1, 1.2), Verdict(True, True)),  # early tokens build slack: a gap of 0.6 s is no miss
        ((0.5, 0.6, 1.201), Verdict(True, False)),
        ((0.9,), Verdict(True, True)),
        ((), Verdict(False, False)),
    ],
)
def test_token_k_is_due_at_ttft_plus_k_times_tbt(times: tuple[float, ...], verdict: Verdict) -> None:
    assert judge(result(*times), PROMISE) == verdict


def test_a_failed_request_misses_both_even_if_its_tokens_were_early() -> None:
    assert judge(result(0.1, 0.2, error="cut"), PROMISE) == Verdict(False, False)


def test_every_request_sent_is_in_the_denominator() -> None:
    scores = by_class(
        [result(0.5), result(2.0), result(error="429: full"), result(0.1, name="b")], {"a": PROMISE}
    )
    a, b = scores
    assert (a.slo_class, a.requests, a.ok, a.good) == ("a", 3, 2, 1)
    assert a.attainment == pytest.approx(1 / 3)
    assert (b.good, b.attainment, b.tbt_ms) == (None, None, {})
    assert a.ttft_ms["p50"] == pytest.approx(1250)


def test_percentiles_are_milliseconds_of_seconds() -> None:
    assert percentiles([0.1] * 99 + [1.1]) == {"p50": 100.0, "p95": 100.0, "p99": pytest.approx(110.0)}
    assert percentiles([]) == {}


def test_a_request_is_judged_by_its_own_promise_before_its_classes() -> None:
    rows = [result(2.0), result(2.0), result(2.0, name="b")]
    rows[0].promise = Promise(ttft=3.0, tbt=0.1)
    a, b = by_class(rows, {"a": PROMISE})
    assert (a.promised, a.good) == (2, 1)
    assert (b.promised, b.good, b.interval) == (0, None, None)


def test_attainment_has_a_wilson_interval() -> None:
    (one,) = by_class([result(0.5)] * 99 + [result(2.0)], {"a": PROMISE})
    assert one.interval == pytest.approx((0.9455, 0.9982), abs=1e-3)


def test_a_record_says_which_limits_were_missed_and_by_what_times() -> None:
    row = record(result(0.5, 0.6, 1.3), {"a": PROMISE})
    assert (row["missed_ttft"], row["missed_tbt"]) == (False, True)
    assert row["ttft_s"] == 0.5
    assert row["longest_gap_s"] == pytest.approx(0.7)
    assert row["tpot_s"] == pytest.approx(0.4)
    assert row["token_times"] == [0.5, 0.6, 1.3]
    nothing = record(result(error="429: full"))
    assert (nothing["missed_ttft"], nothing["ttft_s"], nothing["longest_gap_s"]) == (None, None, None)


def test_the_summary_has_the_figures_of_vllm_bench_serve() -> None:
    rows = [result(0.5, 0.6, 0.7), result(1.5, 1.7), result(error="500: no")]
    figures = summary(rows, 10.0, {"a": PROMISE})
    assert (figures["completed"], figures["failed"]) == (2, 1)
    assert figures["total_output_tokens"] == 5
    assert figures["request_throughput"] == pytest.approx(0.2)
    assert figures["request_goodput"] == pytest.approx(0.1)
    assert figures["mean_ttft_ms"] == pytest.approx(1000)
    assert figures["median_tpot_ms"] == pytest.approx(150)
    assert figures["p99_e2el_ms"] == pytest.approx(1690)
    assert summary([], 0.0, {})["request_goodput"] is None


def test_the_most_open_requests_are_counted_at_one_moment() -> None:
    rows = [result(0.1) for _ in range(3)]
    for row, (sent, ended) in zip(rows, ((0.0, 2.0), (1.0, 3.0), (2.0, 4.0)), strict=True):
        row.sent, row.ended = sent, ended
    assert most_open(rows) == 2
