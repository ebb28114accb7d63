from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slidingserve.core.knapsack import FINE_CELLS, MOST_CELLS, cell_size, knapsack

items = st.lists(st.tuples(st.integers(1, 60), st.floats(0.01, 10)), max_size=14)


def chosen(made: list[tuple[int, float]], capacity: int, quantum: int) -> list[int]:
    weights = np.array([w for w, _ in made], np.int64)
    values = np.array([v for _, v in made], np.float64)
    return np.flatnonzero(knapsack(weights, values, capacity, quantum)).tolist()


@given(items, st.integers(0, 300))
def test_with_quantum_one_it_equals_brute_force(made: list[tuple[int, float]], capacity: int) -> None:
    best = 0.0
    for count in range(len(made) + 1):
        for some in combinations(made, count):
            if sum(w for w, _ in some) <= capacity:
                best = max(best, sum(v for _, v in some))
    found = chosen(made, capacity, 1)
    assert sum(made[i][0] for i in found) <= capacity
    assert sum(made[i][1] for i in found) == pytest.approx(best)


large = st.lists(st.tuples(st.integers(1, 900), st.floats(0.01, 10)), max_size=14)


@given(large, st.integers(0, 6000), st.integers(1, 64))
def test_a_coarser_quantum_never_takes_more_than_fits(
    made: list[tuple[int, float]], capacity: int, quantum: int
) -> None:
    assert sum(made[i][0] for i in chosen(made, capacity, quantum)) <= capacity


def test_what_fits_as_a_whole_is_taken_whatever_the_quantum() -> None:
    assert chosen([(1001, 1.0), (1001, 1.0), (998, 1.0)], 3000, 16) == [0, 1, 2]


def test_a_coarse_table_may_miss_what_fits_exactly_and_a_fine_one_does_not() -> None:
    assert chosen([(1001, 1.0), (999, 1.0), (500, 0.5)], 2000, 16) == [0, 2]
    assert chosen([(1001, 1.0), (999, 1.0), (500, 0.5)], 2000, 1) == [0, 1]


def test_among_equal_values_the_earlier_items_are_kept() -> None:
    assert chosen([(10, 1.0)] * 5, 30, 1) == [0, 1, 2]


@given(items, st.integers(0, 128), st.integers(1, 64))
def test_small_capacities_are_exact_whatever_the_quantum(
    made: list[tuple[int, float]], capacity: int, quantum: int
) -> None:
    assert chosen(made, capacity, quantum) == chosen(made, capacity, 1)


@pytest.mark.parametrize("capacity", [0, 1, 200, 2048, 2049, 16_384, 1 << 24])
@pytest.mark.parametrize("quantum", [1, 16])
def test_the_table_is_bounded(capacity: int, quantum: int) -> None:
    size = cell_size(capacity, quantum)
    assert capacity // size <= MOST_CELLS
    if capacity <= MOST_CELLS * quantum:
        assert 1 <= size <= quantum
    if size < quantum:
        assert capacity // size <= FINE_CELLS
