"""Intervals against values worked out elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.report.intervals import (
    BOOTSTRAP,
    PAIR,
    SINGLE,
    T_INTERVAL,
    bootstrap,
    estimate,
    gain,
    possible,
    t_interval,
)


@dataclass(frozen=True)
class Value:
    value: float
    seed: int = 1
    fit: int | None = None


def test_three_values_get_the_interval_of_students_t_with_two_degrees_of_freedom() -> None:
    low, high = t_interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027, standard error 1 / sqrt(3)
    assert low == pytest.approx(2 - 4.3027 / math.sqrt(3), abs=1e-3)
    assert high == pytest.approx(2 + 4.3027 / math.sqrt(3), abs=1e-3)


def test_between_two_entries_of_the_table_the_wider_interval_is_taken() -> None:
    values = list(np.linspace(0, 1, 12))  # 11 degrees of freedom: 2.201; the table has 10 and 12
    low, high = t_interval(values)
    exact = 2.201 * float(np.std(values, ddof=1)) / math.sqrt(12)
    assert exact < (high - low) / 2 < 1.02 * exact


def test_one_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="two values"):
        t_interval([1.0])
    found = estimate([Value(1.5)])
    assert (found.value, found.low, found.high, found.method) == (1.5, None, None, SINGLE)
    assert found.text() == "1.50"


def test_two_values_get_no_interval_since_students_would_be_25_times_as_wide_as_they_are_apart() -> None:
    found = estimate([Value(6.0, seed=1), Value(8.0, seed=2)])
    assert (found.value, found.low, found.high, found.method) == (7.0, None, None, PAIR)
    assert found.points == (6.0, 8.0)


@given(st.lists(st.floats(0, 100), min_size=3, max_size=6))
def test_an_interval_holds_only_values_that_are_possible(values: list[float]) -> None:
    rows = [Value(value, seed=seed) for seed, value in enumerate(values)]
    found = estimate(rows, possible("violations_percent"))
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.high <= 100
    assert estimate(rows, possible("goodput_qps")).low == found.low


def test_one_fit_is_summarised_over_its_seeds() -> None:
    found = estimate([Value(value, seed=seed) for seed, value in enumerate((1.0, 2.0, 3.0))])
    assert (found.value, found.method, found.points) == (2.0, T_INTERVAL, (1.0, 2.0, 3.0))


def test_several_fits_are_summarised_by_their_median_so_that_one_lucky_fit_is_not_the_result() -> None:
    by_fit = {1: 0.3, 2: 0.3, 3: 0.3, 4: 1.6, 5: 1.7}
    rows = [Value(value + 0.01 * seed, seed, fit) for fit, value in by_fit.items() for seed in (-1, 0, 1)]
    found = estimate(rows)
    assert found.value == pytest.approx(0.3)
    assert found.points == pytest.approx((0.3, 0.3, 0.3, 1.6, 1.7))
    assert found.method == BOOTSTRAP
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.31
    assert found.high > 1.5, "the interval shows that the fits fall into two groups"


def test_the_bootstrap_is_repeatable_and_near_the_normal_interval_for_many_fits() -> None:
    values = np.random.default_rng(0).normal(10, 1, (200, 1)).tolist()
    low, high = bootstrap(values)
    assert (low, high) == bootstrap(values)
    # the median of 200 normal values has a standard error of 1.253 / sqrt(200)
    assert high - low == pytest.approx(2 * 1.96 * 1.253 / math.sqrt(200), rel=0.35)


@given(st.lists(st.floats(0, 100), min_size=3, max_size=6))
def test_an_estimate_lies_inside_its_interval(values: list[float]) -> None:
    found = estimate([Value(value, seed=seed) for seed, value in enumerate(values)])
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value + 1e-9
    assert found.value <= found.high + 1e-9


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        estimate([])


def test_seeds_that_each_have_a_fit_of_their_own_are_summarised_as_seeds() -> None:
    found = estimate([Value(value, seed, seed) for seed, value in enumerate((1.0, 2.0, 3.0), 1)])
    assert (found.value, found.method) == (2.0, T_INTERVAL)


def test_several_fits_on_one_seed_are_summarised_by_their_median() -> None:
    found = estimate([Value(value, 1, fit) for fit, value in enumerate((1.0, 2.0, 9.0), 1)])
    assert (found.value, found.method) == (2.0, BOOTSTRAP)


def test_a_gain_is_reckoned_seed_by_seed_so_that_what_a_seed_does_to_both_cancels() -> None:
    base = [Value(value, seed) for seed, value in enumerate((1.0, 2.0, 4.0))]
    ours = [Value(1.1 * item.value, item.seed, item.seed) for item in base]
    found = gain(ours, base)
    assert found is not None
    assert found.value == pytest.approx(10.0)
    assert found.low == pytest.approx(10.0)
    assert found.text(0, signed=True) == "+10 [+10, +10]"


def test_a_gain_needs_a_seed_that_both_have_and_a_base_above_nothing() -> None:
    assert gain([Value(1.0, 1)], [Value(1.0, 2)]) is None
    assert gain([Value(1.0, 1)], [Value(0.0, 1)]) is None
    assert gain([], []) is None
