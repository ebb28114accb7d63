from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from slidingserve.predictor.features import Scene
from slidingserve.predictor.model import LatencyModel, Weights
from slidingserve.predictor.profile import ProfileKey, load_profile, save_profile

KEY = ProfileKey("0.32.0", "org/model", "main", "bfloat16", 2, 1, "NVIDIA H200", 2048, True)
WEIGHTS = Weights(0.01, (1e-9, 0.0, 0.0, 1e-4, 1e-7, 2e-4, 0.0))
MODEL = LatencyModel(WEIGHTS, {Scene.MIXED: WEIGHTS})


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "profile.json"
    assert save_profile(path, KEY, MODEL, 812) == ""
    return path


def test_a_profile_comes_back_as_it_was_stored(stored: Path) -> None:
    loaded = load_profile(stored, KEY)
    assert (loaded.model, loaded.samples, loaded.reason) == (MODEL, 812, "")
    assert [p.name for p in stored.parent.iterdir()] == ["profile.json"], "no temporary file is left"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vllm_version", "0.33.0"),
        ("model", "org/other"),
        ("revision", "v2"),
        ("dtype", "float16"),
        ("tensor_parallel", 1),
        ("pipeline_parallel", 2),
        ("device", "NVIDIA A100"),
        ("max_batched_tokens", 512),
        ("async_scheduling", False),
    ],
)
def test_a_profile_of_anything_else_is_not_used_and_says_why(stored: Path, field: str, value: object) -> None:
    loaded = load_profile(stored, replace(KEY, **{field: value}))  # type: ignore[arg-type]
    assert loaded.model is None
    there = getattr(KEY, field)
    assert f"was made for {field} {there!r}, this engine has {value!r}; calibrating anew" in loaded.reason


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        "\x00\xff",
        '{"format": 1, "key": null, "model": {}, "samples": 1}',
        "[" * 100_000,
    ],
)
def test_a_damaged_profile_is_a_reason_not_an_exception(stored: Path, content: str) -> None:
    stored.write_bytes(content.encode("latin-1"))
    loaded = load_profile(stored, KEY)
    assert loaded.model is None
    assert "is damaged" in loaded.reason
    assert "calibrating anew" in loaded.reason


@pytest.mark.parametrize(
    ("old", "new"), [("0.0002", "-0.0002"), ("0.0002", "NaN"), ("0.0002", '"x"'), ("0.0002,", "")]
)
def test_weights_that_cannot_be_are_damage(stored: Path, old: str, new: str) -> None:
    text = stored.read_text()
    assert old in text
    stored.write_text(text.replace(old, new))
    assert load_profile(stored, KEY).model is None


def test_a_profile_of_the_papers_fit_may_have_weights_below_zero(stored: Path) -> None:
    stored.write_text(stored.read_text().replace("0.0002", "-0.0002"))
    assert "another fit made it" in load_profile(stored, KEY).reason
    signed = load_profile(stored, KEY, signed=True).model
    assert signed is not None
    assert signed.everywhere.slopes[5] == -0.0002


def test_a_newer_format_says_so(stored: Path) -> None:
    stored.write_text(stored.read_text().replace('"format": 1', '"format": 2'))
    assert "has format 2, this version reads 1" in load_profile(stored, KEY).reason


def test_no_profile_and_no_way_to_write_one_are_reasons(tmp_path: Path) -> None:
    assert "is not there" in load_profile(tmp_path / "none.json", KEY).reason
    (tmp_path / "file").write_text("")
    assert "cannot be written" in save_profile(tmp_path / "file" / "profile.json", KEY, MODEL, 1)
    (tmp_path / "directory").mkdir()
    assert "cannot be written" in save_profile(tmp_path / "directory", KEY, MODEL, 1)
    assert "cannot be read" in load_profile(tmp_path / "directory", KEY).reason


def test_a_file_far_too_large_is_not_read(stored: Path) -> None:
    with stored.open("r+b") as file:
        file.truncate(2 << 20)
    assert "is larger than" in load_profile(stored, KEY).reason
