"""Runs of a real vLLM recorded request by request: what a replay in the simulator is held against."""

from __future__ import annotations

from dataclasses import dataclass

from slidingserve.core.columns import Floats, Ints
from slidingserve.hardware.tables import load


@dataclass(frozen=True)
class Recording:
    """300 ShareGPT requests on vLLM 0.19, prefix caching and async scheduling on, served in-process: no HTTP
    and no tokenising in the times. Arrays by request in order of arrival, seconds from the first arrival."""

    hardware: str
    """The profile of the same GPU and model."""
    max_tokens: int
    max_requests: int
    kv_tokens: int | None
    """As vLLM reported it, where it was kept."""
    arrival: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    first_token: Floats
    last_token: Floats

    @property
    def ttft(self) -> Floats:
        """Seconds from arrival to the first token."""
        return self.first_token - self.arrival

    @property
    def tpot(self) -> Floats:
        """Mean seconds between tokens after the first."""
        return (self.last_token - self.first_token) / (self.output_tokens - 1)

    @property
    def e2e(self) -> Floats:
        """Seconds from arrival to the last token."""
        return self.last_token - self.arrival


_RUNS = {
    "rtx4090-tp1-llama3.1-8b": ("RTX4090", 2048, 256, 41408),
    "rtxpro6000-tp1-llama3.1-8b": ("RTXPRO6000", 2048, 128, None),
}


def names() -> tuple[str, ...]:
    """Profiles with a recorded run."""
    return tuple(_RUNS)


def get(name: str) -> Recording:
    """The run on that profile's hardware. Raises ValueError where there is none."""
    if name not in _RUNS:
        raise ValueError(f"no run was recorded on {name!r}; there are {', '.join(_RUNS)}")
    gpu, max_tokens, max_requests, kv_tokens = _RUNS[name]
    arrays = load("recorded")
    return Recording(
        hardware=name,
        max_tokens=max_tokens,
        max_requests=max_requests,
        kv_tokens=kv_tokens,
        arrival=arrays[f"{gpu}/arrival"],
        prompt_tokens=arrays[f"{gpu}/prompt"].astype("int64"),
        output_tokens=arrays[f"{gpu}/output"].astype("int64"),
        first_token=arrays[f"{gpu}/first"],
        last_token=arrays[f"{gpu}/last"],
    )
