"""Making the data files from the public ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from slidingserve.workloads import build
from slidingserve.workloads.reweight import TABLE_2, Statistics, reweighted, tilt


def pool(rows: int = 20_000) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rng = np.random.default_rng(0)
    return np.stack([rng.lognormal(7, 1, rows), rng.lognormal(5, 1, rows)], axis=1).astype(np.int64) + 1


def test_a_reweighted_set_meets_mean_and_p90_of_both_columns() -> None:
    wanted = Statistics(900, 2000, 150, 300)
    chosen, effective = reweighted(pool(), wanted, 4000)
    assert len(chosen) == 4000
    assert np.mean(chosen, axis=0) == pytest.approx([900, 150], rel=0.01)
    assert np.percentile(chosen, 90, axis=0) == pytest.approx([2000, 300], rel=0.02)
    assert 1000 < effective < 20_000


def test_weights_are_those_nearest_to_the_pool() -> None:
    rows = pool()
    mean, p90 = np.mean(rows, axis=0), np.percentile(rows, 90, axis=0)
    own = Statistics(float(mean[0]), float(p90[0]), float(mean[1]), float(p90[1]))
    np.testing.assert_allclose(tilt(rows, own), 1 / len(rows), rtol=0.1)


def test_statistics_that_no_weighting_meets_are_refused() -> None:
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        tilt(pool(100), Statistics(10.0**9, 2000, 150, 300))


def test_every_file_is_made_and_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    out.mkdir()
    rng = np.random.default_rng(1)
    header = "num_prefill_tokens,num_decode_tokens\n"
    for name, high in ((build.SHAREGPT, 4000), *((name, 9000) for name in build.ARXIV)):
        rows = zip(rng.integers(5, high, 20_000), rng.integers(5, 1900, 20_000), strict=True)
        (raw / name).write_text(header + "".join(f"{p},{o}\n" for p, o in rows))
    for name in build.AZURE.values():
        (raw / name).write_text(
            "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
            "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319601,374,44\r\n"
        )
    for name in build.MOONCAKE.values():
        row = {"timestamp": 27_000, "input_length": 600, "output_length": 5, "hash_ids": [46, 7]}
        (raw / name).write_text(json.dumps(row | {"timestamp": 3_000}) + "\n" + json.dumps(row) + "\n")
    monkeypatch.setattr(sys, "argv", ["build", str(raw), "--out", str(out)])
    build.main()
    made = sorted(path.stem for path in out.iterdir())
    assert made == sorted([*TABLE_2, *build.AZURE, *build.MOONCAKE])
    with np.load(out / "azure_code_2023.npz") as azure:
        assert azure["tick"].tolist() == [0, 520_001]
    with np.load(out / "mooncake.npz") as mooncake:
        assert np.cumsum(mooncake["ids"]).tolist() == [46, 7, 46, 7]
        assert mooncake["tick"].tolist() == [0, 24_000]
    with np.load(out / "sharegpt.npz") as sharegpt:
        assert np.mean(sharegpt["prompt"]) == pytest.approx(357, rel=0.02)
