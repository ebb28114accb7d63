"""Makes the data files of this package from the public ones: ``python -m slidingserve.workloads.build RAW``.

RAW is a folder with the files that ``data/README.md`` lists. Same files in, same bytes out.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from slidingserve.workloads.reweight import TABLE_2, Pairs, reweighted

SHAREGPT = "qoserve_sharegpt_8k_filtered_llama2tok.csv"
ARXIV = ("vidur_arxiv_summarization_llama2tok_filtered_v2.csv", "podattn_arxiv_sample.csv")
AZURE = {
    "azure_code_2023": "AzureLLMInferenceTrace_code_2023.csv",
    "azure_conv_2023": "AzureLLMInferenceTrace_conv_2023.csv",
}
MOONCAKE = {
    "mooncake": "mooncake_conversation_trace.jsonl",
    "mooncake_synthetic": "mooncake_synthetic_trace.jsonl",
}
MOONCAKE_BLOCK = 512
TICK = 1e-7
"""Azure's clock: seven digits after the second."""

SAMPLE = 6000
"""Rows of a reweighted set."""

POOLS = {"sharegpt": ((1, 8192), 4096), "arxiv_v1": ((1500, 6000), 1500), "arxiv_v2": ((4000, 9000), 2000)}
"""Prompt range and longest output of the rows that a reweighted set may draw on."""


def pairs(path: Path) -> Pairs:
    """The first two columns of a CSV: prompt and output tokens."""
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1)).astype(np.int64)


def table_2_set(name: str, raw: Path) -> tuple[dict[str, Any], str]:
    """A set with the statistics of Table 2, and a line about it."""
    files = [SHAREGPT] if name == "sharegpt" else list(ARXIV)
    rows = np.concatenate([pairs(raw / file) for file in files])
    (low, high), longest = POOLS[name]
    prompt, output = rows[:, 0], rows[:, 1]
    pool = rows[(prompt >= low) & (prompt <= high) & (output >= 1) & (output <= longest)]
    chosen, effective = reweighted(pool, TABLE_2[name], SAMPLE)
    figures = [f"{np.mean(chosen[:, k]):.0f}/{np.percentile(chosen[:, k], 90):.0f}" for k in (0, 1)]
    note = f"prompt {figures[0]}, output {figures[1]} (mean/P90), pool {len(pool)}, effective {effective:.0f}"
    return {"prompt": chosen[:, 0].astype(np.int32), "output": chosen[:, 1].astype(np.int32)}, note


def azure(path: Path) -> dict[str, Any]:
    """Lengths, and gaps between arrivals in units of 100 ns."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    ticks = []
    for row in rows:
        whole, _, fraction = row["TIMESTAMP"].partition(".")
        seconds = int((datetime.fromisoformat(whole) - datetime(2023, 1, 1)).total_seconds())
        ticks.append(seconds * 10_000_000 + int(fraction.ljust(7, "0")))
    return {
        "prompt": np.array([int(row["ContextTokens"]) for row in rows], dtype=np.int32),
        "output": np.array([int(row["GeneratedTokens"]) for row in rows], dtype=np.int32),
        "tick": np.diff(np.array(ticks, dtype=np.int64), prepend=ticks[0]),
        "seconds": np.float64(TICK),
    }


def mooncake(path: Path) -> dict[str, Any]:
    """Lengths, gaps in ms, block ids as differences."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    ids = np.concatenate([np.array(row["hash_ids"], dtype=np.int64) for row in rows])
    times = np.array([row["timestamp"] for row in rows], dtype=np.int64)
    return {
        "prompt": np.array([row["input_length"] for row in rows], dtype=np.int32),
        "output": np.array([row["output_length"] for row in rows], dtype=np.int32),
        "tick": np.diff(times, prepend=times[0]).astype(np.int32),
        "seconds": np.float64(1e-3),
        "ids": np.diff(ids, prepend=0).astype(np.int32),
        "blocks": np.array([len(row["hash_ids"]) for row in rows], dtype=np.int32),
        "block": np.int64(MOONCAKE_BLOCK),
    }


def columns(raw: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every file to write: name, arrays, a line about it."""
    for name in TABLE_2:
        content, note = table_2_set(name, raw)
        yield name, content, note
    for name, file in AZURE.items():
        yield name, azure(raw / file), file
    for name, file in MOONCAKE.items():
        yield name, mooncake(raw / file), file


def main() -> None:
    """Write every file into the folder given (default: this package's)."""
    parser = argparse.ArgumentParser(description="Make the workload data from the public files.")
    parser.add_argument("raw", type=Path, help="folder with the public files, named as data/README.md says")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    arguments = parser.parse_args()
    console = Console()
    for name, content, note in columns(arguments.raw):
        path = arguments.out / f"{name}.npz"
        np.savez_compressed(path, **content)
        console.print(f"{path.name}: {path.stat().st_size} bytes; {note}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
