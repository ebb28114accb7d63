"""What the engine itself says: its counters of kept and broken promises, its queues, its live state.

Read by ``compare`` before and after a block, through the Service like any client.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """Requests of a class, and how many kept the whole promise (every token in time)."""

    requests: int = 0
    good: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.requests + other.requests, self.good + other.good)

    def __sub__(self, other: Kept) -> Kept:
        return Kept(self.requests - other.requests, self.good - other.good)


def kept_by_class(text: str) -> dict[str, Kept]:
    """Read the exposition text: good, and good + violations, of objective "request" by class."""
    good: dict[str, float] = defaultdict(float)
    bad: dict[str, float] = defaultdict(float)
    for name, labels, value in samples(text):
        if labels.get("objective") == "request":
            if name == "slidingserve_slo_good_total":
                good[labels["slo_class"]] += value
            elif name == "slidingserve_slo_violations_total":
                bad[labels["slo_class"]] += value
    return {
        name: Kept(round(good[name] + bad[name]), round(good[name]))
        for name in sorted(good.keys() | bad.keys())
    }


def unfinished(text: str) -> int:
    """Requests that wait or run, by vLLM's own gauges."""
    gauges = {"vllm:num_requests_running", "vllm:num_requests_waiting"}
    return round(sum(value for name, _, value in samples(text) if name in gauges))


def samples(text: str) -> list[tuple[str, Mapping[str, str], float]]:
    """(name, labels, value) of every sample in an exposition text."""
    return [
        (sample.name, sample.labels, float(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


class Engine:
    """The HTTP side of one engine; ``base`` has no path."""

    def __init__(self, base: str) -> None:
        self.base = base.rstrip("/")
        self._http = httpx.Client(base_url=self.base, timeout=20, trust_env=False)

    @property
    def api(self) -> str:
        return f"{self.base}/v1"

    def metrics(self) -> str:
        """The exposition text; tries again for a while, as an endpoint may lag behind Ready."""
        return self._get("/metrics").text

    def state(self) -> dict[str, Any]:
        """GET /slidingserve/v1/state."""
        state: dict[str, Any] = self._get("/slidingserve/v1/state").json()
        return state

    def models(self) -> list[str]:
        """Names of the served models."""
        return [model["id"] for model in self._get("/v1/models").json()["data"]]

    def wait_policy(self, policy: str, seconds: float = 60) -> None:
        """Return once the engine has ``policy`` in force; raises TimeoutError."""
        self._wait(
            lambda: self.state()["policy"] == policy, f"the engine has no policy {policy!r} in force", seconds
        )

    def wait_drained(self, seconds: float = 120) -> None:
        """Return once no request waits or runs; raises TimeoutError."""
        self._wait(lambda: unfinished(self.metrics()) == 0, "requests are still running", seconds)

    def close(self) -> None:
        self._http.close()

    def _get(self, path: str) -> httpx.Response:
        retrying = Retrying(
            stop=stop_after_delay(30),
            wait=wait_fixed(0.3),
            retry=retry_if_exception_type(httpx.HTTPError),
            reraise=True,
        )
        return retrying(lambda: self._http.get(path).raise_for_status())

    @staticmethod
    def _wait(condition: Any, failure: str, seconds: float) -> None:
        retrying = Retrying(
            stop=stop_after_delay(seconds), wait=wait_fixed(0.2), retry=retry_if_result(lambda done: not done)
        )
        try:
            retrying(condition)
        except RetryError as error:
            raise TimeoutError(f"{failure} after {seconds:.0f} s") from error
