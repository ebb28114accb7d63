"""`spec.sloClasses` and `spec.scheduler`: the promise and how it is kept. Hot: in force without a restart."""

from typing import Literal

from pydantic import ConfigDict, Field

from .base import Model
from .options import options_model
from .rules import cel, extra

NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class TTFT(Model):
    """Limit of the time to first token: exactly one of its fields."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "has(self.milliseconds) != has(self.slowdown)",
                "ttft needs exactly one of milliseconds (a fixed limit) and slowdown (a multiple of the time"
                " the prompt would take alone)",
            )
        )
    )

    milliseconds: float | None = Field(
        default=None, description="Fixed limit in milliseconds.", gt=0, le=86_400_000
    )
    slowdown: float | None = Field(
        default=None,
        description="Limit as a multiple of the time the prompt would take alone on this engine.",
        ge=1,
        le=10_000,
    )


class SLOClass(Model):
    """A class of requests and its promise; clients choose it with the header x-slo-class."""

    name: str = Field(
        description="Name of the class, also the metrics' label slo_class.",
        pattern=NAME_PATTERN,
        max_length=63,
    )
    ttft: TTFT = Field(description="Promise for the first token.")
    tbt_milliseconds: float = Field(
        description="Promise for the time between tokens in milliseconds.", gt=0, le=3_600_000
    )
    objective_percent: float = Field(
        default=99, description="Share of requests that must keep the promise, in percent.", gt=0, lt=100
    )
    safeguard: bool = Field(default=False, description="Whether the scheduler protects this class first.")
    weight: float = Field(
        default=1,
        description="Weight of the class in the resource's overall attainment; the engines do not see it.",
        gt=0,
        le=1000,
    )


class Predictor(Model):
    """The batch latency predictor."""

    refresh_seconds: float = Field(
        default=30,
        description="Time between two fits from the engine's own batches, in seconds.",
        ge=1,
        le=86_400,
    )
    method: Literal["robust", "ols"] | None = Field(
        default=None,
        description="How it is fitted: robust (no weight below zero; the default) or ols (least squares).",
    )
    expert_samples: int | None = Field(
        default=None,
        description="Batches from which on a scene (decode, prefill, mixed) has weights of its own; by"
        " default the engine's.",
        ge=8,
        le=2048,
    )


class Chunk(Model):
    """Bounds of a batch's prefill tokens."""

    model_config = ConfigDict(
        json_schema_extra=extra(
            cel(
                "!has(self.minTokens) || !has(self.maxTokens) || self.minTokens <= self.maxTokens",
                "scheduler.chunk.minTokens must not be above scheduler.chunk.maxTokens",
            )
        )
    )

    min_tokens: int = Field(default=16, description="Least prefill tokens of a batch.", ge=1, le=1_048_576)
    max_tokens: int | None = Field(
        default=None,
        description="Most prefill tokens of a batch; by default the engine's own batch limit.",
        ge=1,
        le=1_048_576,
    )


class Overload(Model):
    """What happens above capacity."""

    mode: Literal["serve", "relegate"] = Field(
        default="serve",
        description="Waiting requests that can no longer keep their promise: serve (tried all the same, as"
        " the paper does) or relegate (put behind all others for good, so that those that still can keep"
        " theirs do; fewer misses above capacity, the same below). Used by slidingserve_paper.",
    )


class Options(options_model()):  # type: ignore[misc]  # made from the engine's schema
    """Choices within the policies, for people who know the method; docs/method.md has the reasons."""


class Scheduler(Model):
    """Settings of the scheduler inside the engines."""

    policy: Literal["slidingserve_paper", "sarathi_edf", "qoserve", "ppas", "fcfs"] = Field(
        default="slidingserve_paper",
        description="Scheduling policy: slidingserve_paper, or a baseline to compare with; fcfs leaves the"
        " order to vLLM.",
    )
    alpha: float | None = Field(
        default=None,
        description="Urgency above which a request is served first; by default the policy's own.",
        gt=0,
        le=10,
    )
    predictor: Predictor = Field(default_factory=Predictor, description="Settings of the latency predictor.")
    chunk: Chunk = Field(default_factory=Chunk, description="Bounds of a batch's prefill tokens.")
    overload: Overload | None = Field(
        default=None, description="What happens above capacity; by default every request is tried."
    )
    options: Options | None = Field(
        default=None, description="Choices within the policies; docs/method.md has the reasons."
    )
