"""Makes hardware/data from the raw tables of public repositories (see data/README.md for which).

    python -m slidingserve.hardware.build RAW [--out DIR]

RAW has a folder each for llmservingsim, aiconfigurator and vidur, with the repositories' files under
their own paths. Needs pyarrow beside the package. Same raw files, same bytes.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from slidingserve.core.columns import Floats
from slidingserve.hardware.build_servers import server_fits, servers
from slidingserve.hardware.tables import DATA

OPERATORS = (
    "embedding", "input_layernorm", "q_proj", "k_proj", "v_proj", "rope", "attn", "o_proj", "post_layernorm",
    "gate_proj", "up_proj", "act_fn", "down_proj", "final_layernorm", "lm_head",
)  # fmt: skip
KERNELS = (
    "embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj",
    "final_layernorm",
)  # fmt: skip
LAYERS = {"RTX3090-tp2": "RTX3090", "A6000-tp2": "A6000", "H100-tp1": "H100"}
SERVING = ("RTX4090-tp1", "RTXPRO6000-tp1", "RTXPRO6000-tp2")
CHUNK = [0, *(2**k for k in range(4, 12))]
CONTEXT = [0, *(2**k for k in range(4, 15))]
DECODE = [0, *(2**k for k in range(9))]


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file by column names."""
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def layers(raw: Path) -> dict[str, np.ndarray]:
    """Operators at every count of tokens, integer nanoseconds as they were written."""
    arrays: dict[str, np.ndarray] = {"operators": np.array(OPERATORS)}
    for key, gpu in LAYERS.items():
        degree = key.rsplit("-", 1)[1]
        table = np.zeros((len(OPERATORS), 2048), np.int32)
        for row in rows(raw / f"profiler/v0/perf_models/{gpu}/meta-llama/Llama-3.1-8B/{degree}/layers.csv"):
            table[OPERATORS.index(row["layer_name"]), int(row["input"]) - 1] = int(row["latency(ns)"])
        arrays[key] = table
    return arrays


def kernels(raw: Path) -> dict[str, np.ndarray]:
    """vLLM's kernels in microseconds: by tokens, by sequences, and attention on the doubling mixed grid."""
    arrays: dict[str, np.ndarray] = {"kernels": np.array(KERNELS)}
    for key in SERVING:
        gpu, degree = key.split("-")
        folder = raw / f"profiler/perf/{gpu}/meta-llama/Llama-3.1-8B/bf16/{degree}"
        arrays["tokens"], arrays[f"{key}/tokens"] = _by(rows(folder / "dense.csv"), "tokens", KERNELS)
        arrays["sequences"], arrays[f"{key}/sequences"] = _by(
            rows(folder / "per_sequence.csv"), "sequences", ("lm_head", "sampler")
        )
        arrays[f"{key}/attention"] = _mixed_grid(rows(folder / "attention.csv"))
        arrays[f"{key}/skew"] = _skew(rows(folder / "skew.csv"))
    for name, axis in (
        ("chunk", CHUNK),
        ("context", CONTEXT),
        ("decodes", DECODE),
        ("decode_context", CONTEXT[1:]),
    ):
        arrays[f"axis/{name}"] = np.array(axis, np.int32)
    return arrays


def _by(table: list[dict[str, str]], column: str, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    counts = sorted({int(row[column]) for row in table})
    times = np.full((len(names), len(counts)), np.nan, np.float32)
    for row in table:
        times[names.index(row["layer"]), counts.index(int(row[column]))] = float(row["time_us"])
    if np.isnan(times).any():
        raise ValueError(f"a count of {column} lacks a layer")
    return np.array(counts, np.int32), times


def _mixed_grid(table: list[dict[str, str]]) -> np.ndarray:
    """Shape chunks x contexts x decodes x decode contexts; what does not apply is repeated along its axis."""
    times = {
        (int(r["prefill_chunk"]), int(r["kv_prefill"]), int(r["n_decode"]), int(r["kv_decode"])): float(
            r["time_us"]
        )
        for r in table
    }
    grid = np.zeros((len(CHUNK), len(CONTEXT), len(DECODE), len(CONTEXT) - 1), np.float32)
    for i, chunk in enumerate(CHUNK):
        for j, context in enumerate(CONTEXT):
            for k, count in enumerate(DECODE):
                for m, length in enumerate(CONTEXT[1:]):
                    if chunk and count == DECODE[-1]:
                        continue  # more requests than the engine took; the reader fills it in
                    where = (chunk, context if chunk else 0, count, length if count else 0)
                    grid[i, j, k, m] = times[where] if chunk or count else 0.0
    return grid


def _skew(table: list[dict[str, str]]) -> np.ndarray:
    """Of the way from the time at the mean context to the time at the longest: the share that batches of
    uneven decodes take, by count of decodes (`DECODE`), alone and beside a prefill. Least squares on relative
    times over rows whose longest context is at most four times the mean. Alone, one share for all counts, the
    median: at powers of two it is chance whether even decodes fill whole waves of thread blocks."""
    alpha = np.zeros((2, len(DECODE)))
    for k, regime in enumerate(("pure", "mixed")):
        for i, count in enumerate(DECODE):
            found = [
                (
                    float(r["t_max_us"]) / float(r["t_mean_us"]) - 1,
                    float(r["t_skew_us"]) / float(r["t_mean_us"]) - 1,
                )
                for r in table
                if r["regime"] == regime
                and int(r["n"]) == count
                and float(r["kv_big"]) <= 4 * float(r["kv_mean"])
            ]
            way, gone = np.array(found).reshape(-1, 2).T
            alpha[k, i] = (way @ gone) / (way @ way) if found else alpha[k, i - 1]
    alpha[0] = np.median(alpha[0, 2:])
    return np.round(np.clip(alpha, 0, 1), 4)


def prefill_fits(raw: Path) -> dict[str, dict[str, float]]:
    """Launch, walk, pair and query of surface.Kernel in seconds: A6000's prefill rows, kv-0 columns.

    Short chunks (to 64 tokens) are all latency and give launch and walk; the rest of the square of the kv-0
    column of each GPU, where work is most of it, gives pair and query.
    """
    fits = {}
    for key in ("RTX3090-tp2", "A6000-tp2"):
        total, chunk, times = _a6000_prefills(raw, "tp2")
        short = chunk <= 64
        walk, launch = np.polyfit(total[short], times[short], 1)
        own = layers(raw)[key][OPERATORS.index("attn")] * 1e-9
        count = np.arange(1, own.size + 1.0)
        rest = own**2 - (launch + walk * count) ** 2
        sure = (rest > 0.5 * own**2) & (count >= 512)
        terms = np.stack([count**2 / 2, count], axis=1)[sure] / own[sure, None]
        (pair, query), *_ = np.linalg.lstsq(terms, np.sqrt(rest[sure]) / own[sure], rcond=None)
        fits[f"{key}/prefill"] = {"launch": launch, "walk": walk, "pair": pair, "query": query}
    return fits


def _a6000_prefills(raw: Path, degree: str) -> tuple[Floats, Floats, Floats]:
    table = rows(raw / f"profiler/v0/perf_models/A6000/meta-llama/Llama-3.1-8B/{degree}/attention.csv")
    prefills = [row for row in table if row["is_prefill"] == "True"]
    total = np.array([float(row["kv_cache_size"]) for row in prefills])
    chunk = np.array([float(row["prefill_chunk_size"]) for row in prefills])
    return total, chunk, np.array([float(row["time_stats.attn_prefill.median"]) for row in prefills]) * 1e-3


def recorded(raw: Path) -> dict[str, np.ndarray]:
    """Requests as vLLM served them: seconds from the first arrival, counts of tokens; no token ids.

    Arrivals are wall clock, the rest monotonic: the least time from arrival to queue counts as none.
    """
    arrays: dict[str, np.ndarray] = {}
    for gpu in ("RTX4090", "RTXPRO6000"):
        path = raw / f"bench/examples/{gpu}/Llama-3.1-8B/vllm/requests.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        start = found[0]["arrival_time"]
        offset = min(row["queued_ts"] - row["arrival_time"] for row in found)
        arrays[f"{gpu}/arrival"] = np.array([row["arrival_time"] - start for row in found])
        for name, column in (("first", "first_token_ts"), ("last", "last_token_ts")):
            arrays[f"{gpu}/{name}"] = np.array([row[column] - offset - start for row in found])
        for name, column in (("prompt", "input_toks"), ("output", "output_toks")):
            arrays[f"{gpu}/{name}"] = np.array([row[column] for row in found], np.int32)
    return arrays


def main() -> None:
    """Write every file of hardware/data that is made from raw tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, help="folder of the repositories' data files")
    parser.add_argument("--out", type=Path, default=DATA, help="folder to write to")
    options = parser.parse_args()
    own = options.raw / "llmservingsim"
    found = servers(options.raw)
    for name, arrays in (
        ("layers", layers(own)),
        ("kernels", kernels(own)),
        ("servers", found),
        ("recorded", recorded(own)),
    ):
        np.savez_compressed(options.out / f"{name}.npz", allow_pickle=False, **arrays)
    fits = prefill_fits(own) | server_fits(found)
    rounded = {key: {name: float(f"{value:.4g}") for name, value in fit.items()} for key, fit in fits.items()}
    (options.out / "fits.json").write_text(json.dumps(rounded, indent=2) + "\n")


if __name__ == "__main__":
    main()
