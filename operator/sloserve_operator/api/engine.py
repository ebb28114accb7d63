"""What an engine says of itself at GET /slidingserve/v1/state: the operator's half of that contract.

Read by `engine_metrics`, judged by `status` and `nudge`. Unknown keys are ignored, missing ones have a
default, so that engines a version apart are still understood.
"""

from typing import Any

from pydantic import Field, field_validator

from .base import Model


class Label(Model):
    """Live settings by name: the operator's own words come back."""

    revision: str = ""
    generation: int = 0


class Rejected(Label):
    """Live settings that the engine refused, and why."""

    message: str = ""


class Fallback(Model):
    """Why the engine runs the stock scheduler."""

    reason: str = ""


class ClassCount(Model):
    """Requests of a class since the engine started."""

    requests: int = 0
    good: int = 0
    violations: dict[str, int] = Field(default_factory=dict)


class Quality(Model):
    """How an engine's predictions of a batch's time fitted the batches it ran lately."""

    samples: int = 0
    mae_share: float = 0
    under_share: float = 0


class PredictorState(Model):
    """The latency predictor of one engine."""

    calibrated: bool = False
    overall: Quality | None = None


class EngineState(Model):
    """State of one pod; `applied` is the lowest over its processes."""

    version: str = ""
    applied: Label = Field(default_factory=Label)
    rejected: Rejected | None = None
    fallback: Fallback | None = None
    policy: str | None = None
    alpha: float | None = None
    compiling: str = ""
    """The policy asked for, while its code is made and the one before it decides."""
    unknown_keys: list[str] = Field(default_factory=list)
    classes: dict[str, ClassCount] = Field(default_factory=dict)
    predictor: PredictorState | None = None

    @field_validator("applied", mode="before")
    @classmethod
    def _nothing_applied_yet(cls, value: Any) -> Any:
        return {} if value is None else value
