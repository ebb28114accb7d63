"""Raw tables of the A100 and H100: aiconfigurator's parquet files (needs pyarrow) and Vidur's CSV.

Called by build.py. Attention is that of Llama-3.1-8B on one GPU: 32 heads, 8 KV heads, head size 128, 16-bit.
"""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

GPUS = {"A100": ("a100_sxm", "0.14.0"), "H100": ("h100_sxm", "0.24.0")}
ATTENTION = {"num_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "window_size": 0}
DECODES = [2**k for k in range(11)]
DECODE_CONTEXTS = [2**k for k in range(4, 18)]
VIDUR = (
    "emb", "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip


def servers(raw: Path) -> dict[str, np.ndarray]:
    """Prefill attention without context, decode attention; the A100's head and layers."""
    arrays: dict[str, np.ndarray] = {}
    for gpu, (folder, version) in GPUS.items():
        base = raw / "aiconfigurator/data" / folder
        prefill = {
            row["isl"]: row["latency"]
            for row in _attention(base / f"attention/vllm/{version}/context_attention_perf.parquet")
            if row["batch_size"] == 1
        }
        arrays["prefill/tokens"] = np.array(sorted(prefill), np.int32)
        arrays[f"{gpu}/prefill"] = np.array([prefill[n] for n in sorted(prefill)], np.float32) * 1e-3
        table = np.full((len(DECODES), len(DECODE_CONTEXTS)), np.nan, np.float32)
        for row in _attention(base / f"attention/vllm/{version}/generation_attention_perf.parquet"):
            count, context = row["batch_size"], row["step"] + 1
            if count in DECODES and context in DECODE_CONTEXTS:
                table[DECODES.index(count), DECODE_CONTEXTS.index(context)] = row["latency"] * 1e-3
        arrays[f"{gpu}/decode"] = table
    head = {
        row["m"]: row["latency"] * 1e-3
        for row in _rows(raw / "aiconfigurator/data/a100_sxm/gemm/vllm/0.14.0/gemm_perf.parquet")
        if row["gemm_dtype"] == "bfloat16" and (row["n"], row["k"]) == (65536, 4096) and row["m"] <= 1024
    }
    arrays["A100/head_at"] = np.array(sorted(head), np.int32)
    arrays["A100/head"] = np.array([head[m] for m in sorted(head)], np.float32)
    arrays["A100/tokens"], arrays["A100/layers"] = _vidur(
        raw / "vidur/data/profiling/compute/a100/meta-llama/Meta-Llama-3-8B/mlp.csv"
    )
    arrays["A100/operators"] = np.array(VIDUR)
    return arrays


def server_fits(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Seconds of a query-key pair of prefills, of a cached token of decodes, and (H100) of a token's walk.

    A pair: least squares on relative times of prompts from 1,024 tokens. A cached token: the median over
    batches of 2^18 cached tokens and more, which memory bounds. The walk: the slope of prompts of 128 to 512
    tokens, too short for blocks to share a multiprocessor; the A100's times there do not show one.
    """
    fits = {}
    at = arrays["prefill/tokens"].astype(float)
    work = np.outer(DECODES, DECODE_CONTEXTS).astype(float)
    for gpu in GPUS:
        times, table = arrays[f"{gpu}/prefill"].astype(float), arrays[f"{gpu}/decode"].astype(float)
        long = at >= 1024
        terms = np.stack([at**2 / 2, at], axis=1)[long] / times[long, None]
        pair = np.linalg.lstsq(terms, np.ones(long.sum()), rcond=None)[0][0]
        fits[gpu] = {"pair": float(pair), "decode_token": float(np.nanmedian((table / work)[work >= 2**18]))}
    short = (at >= 128) & (at <= 512)
    fits["H100"]["walk"] = float(np.polyfit(at[short], arrays["H100/prefill"][short].astype(float), 1)[0])
    return fits


def _rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = import_module("pyarrow.parquet").read_table(path).to_pylist()
    return found


def _attention(path: Path) -> list[dict[str, Any]]:
    return [
        row
        for row in _rows(path)
        if row["kv_cache_dtype"] == "bfloat16" and all(row.get(k, v) == v for k, v in ATTENTION.items())
    ]


def _vidur(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Median seconds by count of tokens to 2048, the median of repeated rows."""
    found: dict[int, list[list[float]]] = {}
    with path.open(newline="") as handle:
        for row in csv.DictReader(handle):
            count = int(row["num_tokens"])
            if row["num_tensor_parallel_workers"] == "1" and count <= 2048:
                times = [float(row[f"time_stats.{name}.median"]) * 1e-3 for name in VIDUR]
                found.setdefault(count, []).append(times)
    counts = sorted(found)
    return np.array(counts, np.int32), np.array([np.median(found[n], axis=0) for n in counts], np.float32).T
