"""Profiles by name, their memory, their changes, and what stands beside the data."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from slidingserve import hardware
from slidingserve.hardware import recorded, solo_seconds
from slidingserve.hardware.tables import DATA

from tests.unit.hardware.test_timing import step

PAIR = "rtx3090-tp2-llama3.1-8b"


def test_an_unknown_profile_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ValueError, match=r"'rtx3090-tp2-lama3' is unknown; try rtx3090-tp2-llama3\.1-8b"):
        hardware.get("rtx3090-tp2-lama3")
    with pytest.raises(ValueError, match="try "):
        hardware.get("")


@pytest.mark.parametrize("name", hardware.names())
def test_every_profile_says_what_it_is_and_where_it_is_from(name: str) -> None:
    profile = hardware.get(name)
    assert profile.name == name
    assert re.search(r"Measured.*(Filled|Fitted)", profile.sources)
    assert "KV cache" in profile.sources
    assert profile.kv_tokens % profile.block_size == 0
    assert profile.hidden == profile.heads * profile.head_size
    assert (profile.noise_sigma, profile.serving_overhead) == (0.02, 0.060)


def test_kv_capacity_follows_the_stated_formula() -> None:
    room = 48 * 1024**3 * 0.9 - 2.4 * 1024**3 - 16.06e9
    assert 0 <= room / (32 * 8 * 128 * 2 * 2) - hardware.get(PAIR).kv_tokens < 16
    assert hardware.get("rtx3090-tp2-qwen2.5-7b").kv_tokens > 2 * hardware.get(PAIR).kv_tokens
    # On the GPU where vLLM's own figure is known the formula is within 1 %.
    from slidingserve.hardware.shapes import LLAMA, kv_tokens

    assert kv_tokens(LLAMA, 1, 25250627584) == pytest.approx(41408, rel=0.01)


def test_qwen_is_llama_by_shape() -> None:
    llama, qwen = hardware.get(PAIR), hardware.get("rtx3090-tp2-qwen2.5-7b")
    layer = (3584 * (28 + 2 * 4) * 128 + 3584 * 3584 + 3 * 3584 * 18944) / (
        4096 * (32 + 2 * 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
    )
    ratio = qwen.timing.dense[2048] / llama.timing.dense[2048]
    assert ratio == pytest.approx(28 / 32 * layer, rel=0.05)
    assert step(qwen, None, [1024] * 64) < step(llama, None, [1024] * 64)


def test_solo_time_includes_the_serving_overhead_and_every_chunk() -> None:
    profile = hardware.get(PAIR)
    whole = step(profile, [(2048, 0)]) + step(profile, [(952, 2048)])
    assert solo_seconds(profile, np.array([3000]))[0] == pytest.approx(0.060 + whole)
    assert solo_seconds(profile, np.array([2048]))[0] == pytest.approx(0.060 + step(profile, [(2048, 0)]))
    bare = hardware.with_overhead(profile, 0.0)
    assert solo_seconds(bare, np.array([15]))[0] == pytest.approx(step(profile, [(15, 0)]))
    assert solo_seconds(profile, np.zeros(0, np.int64)).shape == (0,)
    assert (np.diff(solo_seconds(profile, np.arange(1, 9000, 97))) > 0).mean() > 0.95


def test_a_faster_link_shortens_steps_of_two_gpus_only() -> None:
    pair, one = hardware.get(PAIR), hardware.get("rtx4090-tp1-llama3.1-8b")
    bridge = hardware.with_allreduce(pair, *hardware.NVLINK)
    saved = 64 * (8e-6 + 512 * 8192 * (1 / 10e9 - 1 / 45e9))
    assert step(pair, [(512, 0)]) - step(bridge, [(512, 0)]) == pytest.approx(saved)
    assert step(hardware.with_allreduce(one, *hardware.PCIE), [(512, 0)]) == step(one, [(512, 0)])


def test_a_profile_changes_by_copy() -> None:
    pair = hardware.get(PAIR)
    slow = hardware.with_host(pair, 5e-3)
    assert step(slow, [(64, 0)]) - step(pair, [(64, 0)]) == pytest.approx(3e-3)
    assert hardware.with_noise(pair, 0.1).noise_sigma == 0.1
    assert replace(pair, kv_tokens=16).kv_tokens == 16
    assert hardware.get(PAIR).noise_sigma == 0.02


@pytest.mark.parametrize(
    "change",
    [
        lambda h: hardware.with_noise(h, -0.1),
        lambda h: hardware.with_overhead(h, float("nan")),
        lambda h: hardware.with_host(h, float("inf")),
        lambda h: hardware.with_allreduce(h, 1e-6, 0),
        lambda h: hardware.with_mixed_penalty(h, -1),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: object) -> None:
    assert callable(change)
    with pytest.raises(ValueError, match="give"):
        change(hardware.get(PAIR))


@pytest.mark.parametrize("name", recorded.names())
def test_recorded_runs_are_whole_and_in_order(name: str) -> None:
    run = recorded.get(name)
    assert run.hardware in hardware.names()
    assert len(run.arrival) == 300
    assert (np.diff(run.arrival) >= 0).all()
    assert (run.ttft > 0).all()
    assert (run.e2e > run.ttft).all()
    assert (run.tpot > 0).all()
    assert int(run.prompt_tokens.sum()) == 257_239
    with pytest.raises(ValueError, match="no run was recorded"):
        recorded.get(PAIR)


def test_the_data_are_small_and_their_licences_stand_beside_them() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 1_500_000
    readme = (DATA / "README.md").read_text()
    for path in DATA.glob("*.npz"):
        assert path.name in readme
    for path in (DATA / "licenses").iterdir():
        assert path.stem.split("-")[0].lower() in readme.lower()
