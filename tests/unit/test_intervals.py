from __future__ import annotations

import pytest
from slidingserve.intervals import wilson


def test_wilson_covers_the_share_and_never_leaves_0_to_1() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(0, 100)
    assert low == pytest.approx(0.0)
    assert high == pytest.approx(0.0370, abs=1e-4)
    low, high = wilson(10, 1000)
    assert low == pytest.approx(0.00545, abs=1e-4)
    assert high == pytest.approx(0.01831, abs=1e-4)
    assert wilson(100, 100)[1] == 1.0
