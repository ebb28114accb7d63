"""Equation 1 on the client's clock."""

from __future__ import annotations

import pytest
from slidingserve.bench.client import Result
from slidingserve.bench.score import Promise, TargetsError, Verdict, by_class, judge, percentiles

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


@pytest.mark.parametrize("text", ["", "a", "a=5", "a=x/1", "a=0/1", "=1/1", "a=1/nan", "a=1/2/3"])
def test_bad_targets_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(TargetsError, match="--slo"):
        Promise.parse(text)
