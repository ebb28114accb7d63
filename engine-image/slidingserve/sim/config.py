"""What a simulated engine is: hardware, policy, limits, predictor; all but the requests and the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from slidingserve import policies
from slidingserve.hardware import Hardware
from slidingserve.policies import PolicySettings
from slidingserve.predictor.model import LatencyModel
from slidingserve.predictor.online import EXPERT_SAMPLES, Method


class SimError(ValueError):
    """Something that cannot be simulated; the text is one sentence with field, value and remedy."""


SHORTEST_REFRESH = 0.1
"""Seconds, as in the live configuration: a refit takes milliseconds, so more of them is a run without end."""
MOST_SAMPLES = 100_000
LARGEST = {"max_tokens": 1 << 20, "max_requests": 1 << 20, "kv_tokens": 1 << 28}
"""Beyond these an engine would be none of today's, and the arrays that stand for it fill the memory."""


def check_seed(name: str, seed: int) -> None:
    """Seeds are what every generator takes without folding two into one. Raises SimError."""
    if not 0 <= seed < 1 << 63:
        raise SimError(f"{name} {seed}: give a whole number from 0 up, below 2**63")


@dataclass(frozen=True)
class PredictorConfig:
    """How the engine's predictor starts and learns. It sees measured batches, never the hardware model."""

    fit_seed: int = 0
    """Which training draw it starts from: a fit, in the words of the paper's evaluation."""
    samples: int = 512
    """Batches of the offline start, drawn from the operating range with the hardware's noise."""
    refresh_seconds: float | None = 30.0
    """Simulated seconds between refits from the batches of the run; None: the offline model stays."""
    method: Method = "robust"
    """As the engine fits, or "ols", the paper's plain least squares."""
    expert_samples: int = EXPERT_SAMPLES
    """A scene gets its own weights from so many samples on."""
    model: LatencyModel | None = None
    """Start from this model, as an engine does that finds its stored profile, and draw no batches."""
    oracle: bool = False
    """For tests: start from many batches without noise, and never refit."""

    def __post_init__(self) -> None:
        """Refuse what cannot be fitted. Raises SimError."""
        if self.samples < 16:
            raise SimError(
                f"predictor samples: {self.samples} are too few for eight weights; give 16 or more"
            )
        if self.samples > MOST_SAMPLES:
            raise SimError(f"predictor samples: {self.samples} are too many; give at most {MOST_SAMPLES}")
        if self.refresh_seconds is not None and not SHORTEST_REFRESH <= self.refresh_seconds < math.inf:
            raise SimError(
                f"predictor refresh: {self.refresh_seconds:g} s is no interval; give {SHORTEST_REFRESH} s or "
                "more, or none"
            )
        if self.expert_samples < 1:
            raise SimError(f"predictor expert_samples: {self.expert_samples} is no count; give 1 or more")
        check_seed("fit_seed", self.fit_seed)


@dataclass(frozen=True)
class SimConfig:
    """One engine. What is None is taken from the hardware's profile."""

    hardware: Hardware
    policy: str = policies.DEFAULT_POLICY
    settings: PolicySettings = field(default_factory=PolicySettings)
    max_tokens: int | None = None
    """The most tokens of a batch (vLLM's max_num_batched_tokens)."""
    max_requests: int | None = None
    """The most requests that run at once (vLLM's max_num_seqs)."""
    kv_tokens: int | None = None
    """Size of the KV cache."""
    prefix_caching: bool = True
    async_scheduling: bool = False
    """vLLM's asynchronous scheduling: a batch is planned while the one before it runs."""
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    noise: float | None = None
    """Sigma of the lognormal noise on batch times."""

    def __post_init__(self) -> None:
        """Refuse an unknown policy and limits that leave no engine. Raises SimError."""
        try:
            policies.get(self.policy)
        except ValueError as error:
            raise SimError(str(error).replace("scheduler.policy", "policy")) from None
        full = self.resolved
        for name, low in (("max_tokens", 1), ("max_requests", 1), ("kv_tokens", 2 * full.block)):
            value = getattr(full, name)
            if value < low:
                raise SimError(f"{name}: {value} is too small; give {low} or more")
            if value > LARGEST[name]:
                raise SimError(f"{name}: {value} is too large; give at most {LARGEST[name]}")
        if not 0 <= full.sigma < 1:
            raise SimError(f"noise: {full.sigma:g} is no sigma of batch times; give a number from 0 to 1")

    @property
    def resolved(self) -> Resolved:
        """The limits with the hardware's own where none was given."""
        hardware = self.hardware
        return Resolved(
            max_tokens=self.max_tokens if self.max_tokens is not None else hardware.max_tokens,
            max_requests=self.max_requests if self.max_requests is not None else hardware.max_requests,
            kv_tokens=self.kv_tokens if self.kv_tokens is not None else hardware.kv_tokens,
            block=hardware.block_size,
            sigma=self.noise if self.noise is not None else hardware.noise_sigma,
        )

    def with_fit(self, seed: int) -> SimConfig:
        """The same engine with a predictor from another training draw."""
        return replace(self, predictor=replace(self.predictor, fit_seed=seed))


@dataclass(frozen=True)
class Resolved:
    """Limits in numbers."""

    max_tokens: int
    max_requests: int
    kv_tokens: int
    block: int
    sigma: float
