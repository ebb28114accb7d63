"""docs/reference/hardware.md from the profiles themselves: `make generate` asks by `generated_files`."""

from __future__ import annotations

import textwrap

import numpy as np

from slidingserve.hardware.base import Hardware
from slidingserve.hardware.profiles import get, names
from slidingserve.hardware.solo import solo_seconds
from slidingserve.hardware.timing import batch_seconds

PREFILLS = (64, 128, 256, 512, 1024, 2048)
PROMPTS = (128, 512, 2048, 8192)

HEAD = """\
# Hardware profiles

<!-- Generated from slidingserve/hardware by `make generate`; edit profiles.py and sources.py there. -->

`slidingserve simulate` and `slidingserve serve --emulate` take batch times from these profiles. A batch
takes its dense layers (by tokens, stair by stair) + attention (by what attends to what) + output head and
sampler (by requests) + all-reduce + host time, times log-normal noise of sigma {sigma:g}. Exclusive service,
the base of slowdowns, takes the prompt alone in chunks of 2,048 tokens and {overhead:.0f} ms of serving
overhead.

Several prefills in one batch count as the one prefill of as many tokens and query-key pairs; prompts that
start together have fewer pairs than that and count as one shorter prompt. Decodes count at their mean context
and, where they are uneven, at some of the way to the longest, as measured.

Two recorded runs of vLLM 0.19 (300 ShareGPT requests, overloaded; `hardware.recorded`) are met by the
simulator with vLLM's own order and no noise; the table has the error in percent. Less than half of the
RTX PRO 6000's measured mixed grid makes its table; the other 10,721 points are met within 2.2 % at the median
and 9 % at percentile 90.

| run | metric | mean | p50 | p90 | p99 |
| --- | --- | --- | --- | --- | --- |
| RTX 4090 | TTFT | 2.9 | 1.4 | 2.7 | 2.6 |
| | TPOT | 1.0 | 1.3 | 5.2 | 1.2 |
| | end to end | 2.4 | 5.8 | 2.6 | 2.6 |
| RTX PRO 6000 | TTFT | -1.4 | -6.7 | -1.4 | 0.1 |
| | TPOT | -0.2 | 1.1 | 1.5 | 1.7 |
| | end to end | -0.6 | 0.2 | -0.4 | -0.3 |
"""


def generated_files() -> dict[str, str]:
    """Path in the repository to whole text."""
    return {"docs/reference/hardware.md": page([get(name) for name in names()])}


def page(profiles: list[Hardware]) -> str:
    """The page: sizes, times, sources."""
    first = profiles[0]
    lines = [HEAD.format(sigma=first.noise_sigma, overhead=1e3 * first.serving_overhead)]
    lines += ["## Sizes", ""]
    lines += _table(
        ["profile", "what", "KV cache, tokens", "tokens a batch", "requests a batch"],
        [
            [f"`{h.name}`", h.title, f"{h.kv_tokens:,}", f"{h.max_tokens:,}", f"{h.max_requests:,}"]
            for h in profiles
        ],
    )
    lines += ["", "The last two are vLLM's defaults there.", "", "## One step, ms", ""]
    lines += _table(
        [
            "profile",
            *(f"prefill of {n:,}" for n in PREFILLS),
            "64 decodes at 1,024",
            "512 at 2,048 + 32 decodes at 1,024",
        ],
        [[f"`{h.name}`", *(f"{1e3 * seconds:.1f}" for seconds in steps(h))] for h in profiles],
    )
    lines += ["", "## A prompt alone, ms to the first token", ""]
    lines += _table(
        ["profile", *(f"{n:,} tokens" for n in PROMPTS)],
        [[f"`{h.name}`", *(f"{1e3 * s:.0f}" for s in solo_seconds(h, np.array(PROMPTS)))] for h in profiles],
    )
    lines += ["", "## What is measured, filled and assumed"]
    for h in profiles:
        lines += ["", f"### {h.name}", "", textwrap.fill(h.sources, 110, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def steps(hardware: Hardware) -> list[float]:
    """Seconds of the steps in the table: prefills without context, decodes alone, a mixture."""

    def step(tokens: list[int], cached: list[int], decodes: int) -> float:
        return batch_seconds(
            hardware.timing,
            np.array(tokens, np.int64),
            np.array(cached, np.int64),
            np.full(decodes, 1024, np.int64),
        )

    return [*(step([n], [0], 0) for n in PREFILLS), step([], [], 64), step([512], [2048], 32)]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
