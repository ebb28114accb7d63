"""One run as the figures of ``vllm bench serve``, under its names, so that scripts for it read ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slidingserve.bench.client import Result
from slidingserve.bench.score import Promises, verdict

LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2E"}
"""Its names and what people call them; ITL is the gap before each token after the first."""

_PERCENTILES = (90, 95, 99)


def summary(results: Sequence[Result], duration: float, promises: Promises) -> dict[str, Any]:
    """Counts, rates (1/s) over ``duration`` s, and mean, median, spread and percentiles of latencies (ms).

    Latencies are those of requests that succeeded; goodput counts requests that kept their whole promise.
    """
    done = [result for result in results if result.ok and result.token_times]
    times = [np.asarray(result.token_times) for result in done]
    gaps = [np.diff(one) for one in times if one.size > 1]
    verdicts = [found for result in results if (found := verdict(result, promises)) is not None]
    inputs, outputs = sum(result.prompt_tokens for result in done), sum(one.size for one in times)
    rate = 1.0 / duration if duration > 0 else 0.0
    figures: dict[str, Any] = {
        "completed": len(done),
        "failed": len(results) - len(done),
        "duration": duration,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(done) * rate,
        "request_goodput": sum(one.request for one in verdicts) * rate if verdicts else None,
        "output_throughput": outputs * rate,
        "total_token_throughput": (inputs + outputs) * rate,
        "max_concurrent_requests": most_open(results),
    }
    samples = {
        "ttft": [float(one[0]) for one in times],
        "tpot": [float(gap.mean()) for gap in gaps],
        "itl": np.concatenate(gaps).tolist() if gaps else [],
        "e2el": [float(one[-1]) for one in times],
    }
    for name, seconds in samples.items():
        figures |= _statistics(name, seconds)
    return figures


def _statistics(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ms = np.asarray(seconds) * 1000
    return {
        f"mean_{name}_ms": float(ms.mean()),
        f"median_{name}_ms": float(np.median(ms)),
        f"std_{name}_ms": float(ms.std()),
        **{f"p{p}_{name}_ms": float(np.percentile(ms, p)) for p in _PERCENTILES},
    }


def most_open(results: Sequence[Result]) -> int:
    """The most requests that were open at one moment."""
    # At equal times an end counts before a start.
    moments = sorted([(r.sent, 1) for r in results] + [(r.ended, -1) for r in results])
    return int(np.cumsum([step for _, step in moments]).max(initial=0))
