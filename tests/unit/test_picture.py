"""The README's picture shows the recorded results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import picture

ROOT = Path(__file__).resolve().parents[2]


def test_the_picture_is_read_from_the_recorded_table() -> None:
    curves = picture.read(picture.RESULTS.read_text())
    assert set(curves) == set(picture.POLICIES.values())
    assert {len(points) for points in curves.values()} == {4}
    assert len({tuple(rate for rate, _ in points) for points in curves.values()}) == 1


def test_a_missing_row_is_named() -> None:
    with pytest.raises(ValueError, match="no row 'mixed-v9'"):
        picture.read(picture.RESULTS.read_text(), "mixed-v9")


def marks(svg: str) -> list[float]:
    """Where the marks of the points lie, x and y in turn."""
    return [float(n) for x, y in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg) for n in (x, y)]


def test_the_committed_picture_is_drawn_from_those_numbers() -> None:
    drawn = marks(picture.svg(picture.draw(picture.read(picture.RESULTS.read_text()))))
    assert len(drawn) > 2 * 16
    assert marks(picture.PICTURE.read_text()) == pytest.approx(drawn, abs=1.0)
    assert f"]({picture.PICTURE.relative_to(ROOT)})" in (ROOT / "README.md").read_text()
